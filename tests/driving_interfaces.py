"""The interfaces of driving networks that were shipped, from their metadata."""

from driving_generations import BYTE, FLOAT, HALF, File

FRAMES = (1, 12, 128, 256)
INPUT_IMGS = {"input_imgs": FRAMES, "big_input_imgs": FRAMES}
IMG = {"img": FRAMES, "big_img": FRAMES}
TRAFFIC = {"traffic_convention": (1, 2)}
LATERAL = {"lateral_control_params": (1, 2)}
ACTION_T = {"action_t": (1, 2)}
NAVIGATION = {"nav_features": (1, 256), "nav_instructions": (1, 150)}
HISTORY_20HZ = {"desire": (1, 100, 8), "features_buffer": (1, 99, 512)}

MIXTURES = {
    "plan": 4955,
    "lane_lines": 528,
    "lane_lines_prob": 8,
    "road_edges": 264,
    "lead": 102,
    "lead_prob": 3,
    "desire_state": 8,
}
LANES = {"lane_lines": 528, "lane_lines_prob": 8, "road_edges": 264}
LEADS = {"lead": 144, "lead_prob": 3}
POSES = {"pose": 12, "wide_from_device_euler": 6}
PLAN = {"plan": 990, "desire_state": 8}
SEEN = {"meta": 55, "desire_pred": 32, **POSES, "road_transform": 12}


def mixtures(meta: int, sim_pose: bool = True, **more: int) -> dict[str, int]:
    """Heads of the one-file networks until 2025."""
    simulated = {"sim_pose": 12} if sim_pose else {}
    tail = {"meta": meta, "desire_pred": 32, **POSES, **simulated, "road_transform": 12}
    return MIXTURES | tail | more


def action_heads(hidden_state: int = 512) -> dict[str, int]:
    """Heads of the one-file networks of 2026."""
    heads = LANES | SEEN | {"plan": 990} | LEADS | {"desire_state": 8, "action": 4}
    return heads | {"hidden_state": hidden_state, "pad": 2}


def old(*inputs: dict[str, tuple[int, ...]], heads: dict[str, int], floats: int = FLOAT) -> File:
    """A one-file network at 20 Hz, whose frames are of the same type as all else."""
    merged: dict[str, tuple[int, ...]] = INPUT_IMGS | TRAFFIC | HISTORY_20HZ
    for more in inputs:
        merged |= more
    return File(merged, heads, images=floats, floats=floats, opset=14)


CURVATURE = {"desired_curvature": 2}
PREV_CURVATURE = {"prev_desired_curv": (1, 100, 1)}


def policy(steps: int, name: str, **more: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """Inputs of a policy."""
    return {name: (1, steps, 8), "features_buffer": (1, steps, 512)} | TRAFFIC | more


VISION_1576 = SEEN | LANES | LEADS | {"hidden_state": 512}
VISION_632 = SEEN | {"hidden_state": 512, "pad": 3}
POLICY_MIXTURES = MIXTURES | {"sim_pose": 12} | CURVATURE | {"pad": 2}

# By name: generation, and the files.
INTERFACES: dict[str, tuple[str, list[File]]] = {
    "2023-style": (
        "supercombo-20hz",
        [
            old(
                {"driving_style": (1, 12), "nav_features": (1, 256)},
                heads=mixtures(48, hidden_state=512, pad=2),
                floats=HALF,
            )
        ],
    ),
    "2023-navigation": (
        "supercombo-20hz",
        [old(NAVIGATION, heads=mixtures(48, hidden_state=512, pad=2), floats=HALF)],
    ),
    "2023-planner": (
        "supercombo-20hz",
        [
            old(
                NAVIGATION,
                {"lat_planner_state": (1, 4)},
                heads=mixtures(48, lat_planner_solution=264, hidden_state=512, pad=2),
            )
        ],
    ),
    "2024-curvatures": (
        "supercombo-20hz",
        [
            old(
                NAVIGATION,
                LATERAL,
                {"prev_desired_curvs": (1, 20)},
                heads=mixtures(48, **CURVATURE, hidden_state=512),
            )
        ],
    ),
    "2024-04": (
        "supercombo-20hz",
        [
            old(
                LATERAL,
                PREV_CURVATURE,
                heads=mixtures(48, **CURVATURE, hidden_state=512),
                floats=HALF,
            )
        ],
    ),
    "2024-07": (
        "supercombo-20hz",
        [old(LATERAL, PREV_CURVATURE, heads=mixtures(53, **CURVATURE, hidden_state=512, pad=3))],
    ),
    "2025-01": (
        "supercombo-20hz",
        [
            File(
                INPUT_IMGS | TRAFFIC | HISTORY_20HZ | LATERAL | PREV_CURVATURE,
                mixtures(55, **CURVATURE, hidden_state=512, pad=1),
                floats=HALF,
            )
        ],
    ),
    "2024-12": (
        "supercombo-5hz",
        [
            File(
                INPUT_IMGS | TRAFFIC | {"desire": (1, 25, 8), "features_buffer": (1, 24, 512)},
                mixtures(55, sim_pose=False, hidden_state=512, pad=3),
            )
        ],
    ),
    "2025-02": (
        "vision-policy-20hz",
        [
            File(INPUT_IMGS, VISION_632),
            File(policy(100, "desire", **LATERAL, **PREV_CURVATURE), POLICY_MIXTURES),
        ],
    ),
    "2025-03": (
        "vision-policy-5hz",
        [
            File(INPUT_IMGS, VISION_632, floats=HALF),
            File(
                policy(25, "desire", **LATERAL, prev_desired_curv=(1, 25, 1)),
                POLICY_MIXTURES,
                floats=HALF,
            ),
        ],
    ),
    "2025-07": (
        "vision-policy-5hz",
        [File(IMG, VISION_1576), File(policy(25, "desire"), PLAN | {"pad": 2})],
    ),
    "2025-09": (
        "vision-policy-5hz",
        [
            File(IMG, VISION_1576, floats=HALF, opset=20),
            File(policy(25, "desire_pulse"), PLAN | {"pad": 2}, floats=HALF, opset=20),
        ],
    ),
    "2026-01-three-files": (
        "vision-policy-5hz",
        [
            File(IMG, VISION_632),
            File(policy(25, "desire_pulse", **ACTION_T), {"plan": 990, "action": 4, "pad": 2}),
            File(policy(25, "desire_pulse"), PLAN | LANES | LEADS | {"pad": 1}),
        ],
    ),
    "2026-33-steps-two-files": (
        "vision-policy-5hz",
        [File(IMG, VISION_1576), File(policy(33, "desire_pulse"), PLAN | {"pad": 2})],
    ),
    "2026-06": (
        "supercombo-5hz",
        [
            File(
                IMG
                | TRAFFIC
                | ACTION_T
                | {"desire_pulse": (1, 25, 8), "features_buffer": (1, 24, 512)},
                action_heads(),
                floats=HALF,
                opset=18,
            )
        ],
    ),
    "2026-spatial": (
        "supercombo-5hz",
        [
            File(
                IMG
                | TRAFFIC
                | ACTION_T
                | {"desire_pulse": (1, 25, 8), "features_buffer": (1, 24, 32, 512)},
                action_heads(32 * 512),
            )
        ],
    ),
    "2026-spatial-33-steps": (
        "supercombo-5hz",
        [
            File(
                IMG
                | TRAFFIC
                | ACTION_T
                | {"desire_pulse": (1, 33, 8), "features_buffer": (1, 32, 32, 512)},
                action_heads(32 * 512),
                images=BYTE,
                opset=20,
            )
        ],
    ),
}
