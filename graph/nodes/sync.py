"""Barriers, fences and waits."""

from ..registry import Attr, NodeType, register_node_type

_BAR = {
    "barrier": Attr(str, "mbarrier and slot, e.g. full[0]"),
    "phase": Attr(int, "phase that is waited for or arrived at"),
    "count": Attr(int, "arrivals"),
    "cta": Attr(int, "rank of the CTA whose barrier it is, where that is another one of the cluster"),
    "expect_bytes": Attr(int, "bytes that the phase waits for besides, delivered by another CTA"),
}

register_node_type(NodeType("barrier_arrive", "mbarrier arrive", "sync", _BAR, sync=True))
register_node_type(
    NodeType("barrier_wait", "mbarrier try_wait until the phase completes", "sync", _BAR, blocking=True, sync=True)
)
register_node_type(
    NodeType(
        "cta_sync",
        "__syncthreads or a named barrier over the executing warps",
        "sync",
        {"id": Attr(int, "barrier resource"), "implicit": Attr(bool, "added by the compiler's thread-sync pass")},
        blocking=True,
        sync=True,
    )
)
_CLUSTER = {"barrier": Attr(str, "cluster"), "exited": Attr(bool, "stands for warps that have ended: costs nothing")}

register_node_type(
    NodeType(
        "cluster_arrive",
        "arrival at the barrier of a cluster of CTAs",
        "sync",
        {**_CLUSTER, "relaxed": Attr(bool, "does not publish what its warps wrote")},
        sync=True,
    )
)
register_node_type(
    NodeType("cluster_wait", "wait until all warps of the cluster have arrived", "sync", _CLUSTER, blocking=True, sync=True)
)
register_node_type(
    NodeType(
        "commit_group",
        "close a group of asynchronous operations",
        "sync",
        {"queue": Attr(str, "cp_async, wgmma or bulk", True)},
        sync=True,
    )
)
register_node_type(
    NodeType(
        "wait_group",
        "wait until at most `pending` groups are outstanding",
        "sync",
        {
            "queue": Attr(str, "cp_async, wgmma or bulk", True),
            "pending": Attr(int, "groups that may be outstanding", True),
            "until_read": Attr(bool, "waits only until bulk stores have read their tiles in shared memory"),
        },
        blocking=True,
        sync=True,
    )
)
register_node_type(
    NodeType(
        "fence",
        "proxy or memory fence",
        "sync",
        {"kind": Attr(str, "proxy_async, warp, cta or gpu", True)},
        blocking=True,
        sync=True,
    )
)
