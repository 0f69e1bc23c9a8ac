"""How many camera frames were missed, and the smoothed percentage that messages report."""

from modeld.constants import DT_MODEL


class FirstOrderFilter:
    """Low-pass y += alpha * (x - y) with alpha = dt / (rc + dt); rc and dt in seconds."""

    def __init__(self, initial: float, rc: float, dt: float) -> None:
        self.value = initial
        self._alpha = dt / (rc + dt)

    def update(self, sample: float) -> float:
        """Take a sample, return the new value."""
        self.value += self._alpha * (sample - self.value)
        return self.value


class DropFilter:
    """Counts missed frames by the main camera's frame ids.

    One missed frame reads 0.495 %, three in one gap 1.47 %; consumers call the model lagging
    above 1 %.
    """

    # Start-up is no lag: the first turns neither count nor charge the filter.
    _SETTLE_TURNS = 10
    # A gap this long says enough; longer ones (a suspended device) must not ring for minutes.
    _MAX_DROPS = 10

    def __init__(self) -> None:
        self._filter = FirstOrderFilter(0.0, 10.0, DT_MODEL)
        self._last_id: int | None = None
        self._turns = 0

    def update(self, frame_id: int) -> int:
        """Note the frame about to be answered; returns how many were missed before it.

        An id that repeats or jumps back (a restarted camera) counts as no miss.
        """
        dropped = 0 if self._last_id is None else max(0, frame_id - self._last_id - 1)
        self._last_id = frame_id
        self._filter.update(min(dropped, self._MAX_DROPS))
        if self._turns < self._SETTLE_TURNS:
            self._filter.value = 0.0
        self._turns += 1
        return dropped

    @property
    def percent(self) -> float:
        """Missed frames as the messages' frameDropPerc: 100 d / (1 + d) of the filtered d."""
        return 100 * self._filter.value / (1 + self._filter.value)
