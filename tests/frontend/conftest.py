"""Shared by the frontend tests: the test kernels, and lowering with a cache."""

import functools
import importlib.util
import pathlib

import pytest

HERE = pathlib.Path(__file__).parent
NO_ROLES = {"tl.disable_warp_specialized": True}


@functools.cache
def module(name):
    spec = importlib.util.spec_from_file_location(f"frontend_kernels_{name}", HERE / "kernels" / f"{name}.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture(scope="session")
def kernels():
    """`kernels("dense.product")` is the factory of that name."""
    pytest.importorskip("tilelang")

    def find(path):
        name, factory = path.split(".")
        return getattr(module(name), factory)

    return find


@pytest.fixture(scope="session")
def graph(kernels):
    """`graph("dense.product", "sm_90a", K=256)` lowers once a session."""
    from gtsim.frontend import lower

    @functools.cache
    def cached(path, arch, pass_configs, kwargs):
        return lower(kernels(path), kwargs=dict(kwargs), arch=arch, pass_configs=dict(pass_configs))

    def get(path, arch, pass_configs=None, **kwargs):
        return cached(path, arch, tuple((pass_configs or {}).items()), tuple(sorted(kwargs.items())))

    return get


class View:
    """Nodes and edges of one template, by name, with every run of its loop bodies."""

    def __init__(self, graph, index=0):
        graph = graph.unrolled()
        self.graph, self.template = graph, graph.templates[index]
        self.nodes = list(graph.nodes_of(self.template))
        t = self.template
        self.edges = list(zip(t.edge_src().tolist(), t.edge_dst.tolist(), t.edge_kind.tolist(), t.edge_reason.tolist(),
                              strict=True))

    def of(self, *types, role=None, loop=None):
        """Nodes of these types."""
        return [n for n in self.nodes if n.type in types and role in (None, n.role) and loop in (None, n.loop)]

    def sources(self, node, reason=None):
        """Nodes with an edge into `node`."""
        return [self.nodes[s] for s, d, _, r in self.edges if d == node.index and reason in (None, r)]


@pytest.fixture(scope="session")
def view():
    return View
