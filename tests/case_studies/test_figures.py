"""Figures are valid SVG whose bars are as tall as the values."""

import xml.etree.ElementTree as ET


def test_bars_scale_with_their_values(case_study, tmp_path) -> None:
    groups = {"one": {"x": 10.0, "y": 5.0}, "two": {"x": None, "y": 2.5}}
    case_study("figures").bars(tmp_path / "f.svg", "a < b", "%", groups, ["x", "y"])
    root = ET.parse(tmp_path / "f.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    heights = [float(r.get("height")) for r in root.iter(f"{space}rect") if r.get("width") == "20"]
    assert [round(h / heights[0], 2) for h in heights] == [1.0, 0.5, 0.25]
    assert "a < b, %" in [t.text for t in root.iter(f"{space}text")]
