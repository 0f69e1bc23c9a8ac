"""Scheduling of the loop's thread, and Python's garbage collector kept out of it."""

import gc
import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RealtimeConfig:
    """FIFO priority 1 to 99 and core numbers for the loop; None leaves that to the kernel."""

    priority: int | None = None
    cores: tuple[int, ...] | None = None


def enter_realtime(config: RealtimeConfig) -> list[str]:
    """Prepare the calling thread for the loop; returns what was not permitted, one line each.

    Call it when all helper threads exist: those started later inherit core and priority, and a
    CPU OpenCL device would squeeze its workers onto one core.
    """
    # What start-up left lives for ever: never look at it again. The loop makes no cycles.
    gc.collect()
    gc.freeze()
    gc.disable()
    problems = []
    if config.priority is not None:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(config.priority))
        except (OSError, ValueError) as error:
            problems.append(
                f"FIFO priority {config.priority} not permitted ({_reason(error)}); "
                "run as a service or grant CAP_SYS_NICE"
            )
    if config.cores is not None:
        try:
            os.sched_setaffinity(0, config.cores)
        except (OSError, ValueError) as error:
            problems.append(
                f"cores {list(config.cores)} not available ({_reason(error)}); "
                f"this machine has 0 to {(os.cpu_count() or 1) - 1}"
            )
    return problems


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
