"""How the car and the vehicles around it move, for many drives at once.

Along the road the driver follows the vehicle ahead (intelligent driver model); across it the car
returns to the middle of its lane like a critically damped spring, so that the future path has a
closed form and the truth about it is exact. The road bends by a slow sine of the distance.
"""

from dataclasses import dataclass

import numpy as np

from modeld.replay.road.scene import (
    PARAMETERS,
    VEHICLE_FIXED,
    VEHICLES,
    Draw,
    Floats,
    Scene,
    draw_scene,
)

_STEER_RATE = 0.8  # 1/s, of the return to the lane's middle
_STEER_SPEED = 10.0  # m/s, below which cars turn more slowly: they turn only by rolling
ACCELERATION_DECAY = 3.0  # s, how long the present acceleration is kept up
LANE_CHANGE_LEFT, LANE_CHANGE_RIGHT = 3, 4  # of the desire enumeration

# Intelligent driver model (Treiber, Hennecke, Helbing 2000), with everyday values.
_COMFORT_ACCELERATION, _COMFORT_BRAKING = 1.2, 2.0
_STANDSTILL_GAP, _TIME_GAP = 4.0, 1.4
_NO_LEAD = 1e4


@dataclass(frozen=True, slots=True)
class Moment:
    """One instant of all drives: what is painted, and what truth is computed from.

    `scene` has every parameter, (drives,). The rest is (drives,) too: speed m/s, acceleration
    m/s², `offset` metres right of the first lane's middle and its rate, `target` where the car
    is steering to, `yaw_error` of the mounting in radians, and the lead in the car's lane
    (distance `_NO_LEAD` where there is none). `desire` is the index that was asked for.
    """

    scene: Scene
    speed: Floats
    acceleration: Floats
    offset: Floats
    offset_rate: Floats
    target: Floats
    yaw_error: Floats
    lead_x: Floats
    lead_y: Floats
    lead_speed: Floats
    lead_acceleration: Floats
    desire: Floats
    pulse: Floats

    @property
    def steer_rate(self) -> Floats:
        """1/s, of the return to the lane's middle."""
        return steer_rate(self.speed)

    @property
    def has_lead(self) -> np.ndarray:
        """Where there is a vehicle ahead in the car's lane."""
        return self.lead_x < _NO_LEAD


def steer_rate(speed: Floats) -> Floats:
    """How fast a car at `speed` m/s returns to its lane's middle, 1/s."""
    return np.asarray(_STEER_RATE * np.minimum(speed / _STEER_SPEED, 1), np.float32)


class Drive:
    """Random drives, stepped through time together."""

    def __init__(self, seed: int | list[int], drives: int) -> None:
        draw = self._draw = Draw(seed, drives)
        self.scene = draw_scene(draw)
        self._along = draw.between(0, 100)
        self._road(draw)
        self._speeds(draw)
        self.offset = np.clip(draw.normal(0.3), -0.9, 0.9).astype(np.float32)
        self.offset_rate = draw.normal(0.15) * self._agility
        self.target = np.zeros(drives, np.float32)
        self._mount(draw)
        self._traffic(draw)
        self._plan_lane_change(draw)
        self._time = 0.0
        self._frame = 0
        self._bearing = draw.between(0, 50)
        self._acceleration = self._drive_acceleration()

    def _road(self, draw: Draw) -> None:
        bend = np.select(
            [draw.chance(0.25), draw.chance(0.7)],
            [draw.between(0, 2e-4), draw.log_between(2e-4, 3e-3)],
            draw.log_between(2e-3, 1.2e-2),
        )
        self._bend = bend.astype(np.float32)
        self._wave = draw.between(900, 2500)
        self._phase = draw.between(0, 2 * np.pi)
        self._crest = draw.sometimes(0.5, -6e-4, 6e-4)

    def _speeds(self, draw: Draw) -> None:
        speed = np.select(
            [draw.chance(0.06), draw.chance(0.25)],
            [np.zeros(draw.drives), draw.between(0, 12)],
            draw.between(12, 36),
        )
        self.speed = np.minimum(speed, np.sqrt(3.0 / np.maximum(self._bend, 1e-5))).astype(
            np.float32
        )
        self._wanted = np.maximum(self.speed * (1 + draw.normal(0.08)), 0.1)

    @property
    def _agility(self) -> Floats:
        return np.asarray(np.minimum(self.speed / _STEER_SPEED, 1), np.float32)

    def _mount(self, draw: Draw) -> None:
        self._pitch, self._roll = draw.normal(0.006), draw.normal(0.008)
        self._yaw_error = draw.normal(0.005)
        self._bump = np.zeros(draw.drives, np.float32)

    def _traffic(self, draw: Draw) -> None:
        """Vehicles: the first is mostly ahead in our lane, the others anywhere."""
        left, right = self.scene["left"], self.scene["right"]
        shape = (draw.drives, VEHICLES)
        random = draw.random
        lane = np.floor(random.random(shape) * (left + right + 1)[:, None]) - left[:, None]
        lane[:, 0] = np.where(draw.chance(0.75), 0, lane[:, 0])
        self._car_lane = lane
        busy = np.where(draw.chance(0.2), 0.0, draw.between(0.2, 0.9))
        self._car_on = random.random(shape) < busy[:, None]
        # Own-lane vehicles keep a sensible gap; others may be beside or behind.
        gap = np.exp(random.uniform(np.log(6), np.log(140), shape))
        headway = 3 + self.speed[:, None] * random.uniform(0.5, 3.5, shape)
        ahead = np.where(random.random(shape) < 0.5, gap, headway)
        ahead = np.where(lane == 0, np.maximum(ahead, 4 + 0.5 * self.speed[:, None]), ahead)
        self._car_x = np.where((lane != 0) & (random.random(shape) < 0.3), ahead - 25, ahead)
        yellow = np.where(self.scene["drives_left"] > 0, 1, -1)[:, None]
        oncoming = (self.scene["two_way"][:, None] > 0) & (lane * yellow > 0)
        self._oncoming = oncoming
        same = np.maximum(self.speed[:, None] * (1 + random.normal(0, 0.15, shape)), 0)
        self._car_speed = np.where(oncoming, -random.uniform(5, 30, shape), same)
        steady = random.random(shape) < 0.5
        self._car_acceleration = np.where(steady | oncoming, 0, random.normal(0, 0.8, shape))
        self._car_aside = random.normal(0, 0.2, shape)

    def _plan_lane_change(self, draw: Draw) -> None:
        side = np.where(draw.chance(0.5), -1, 1)
        yellow = np.where(self.scene["drives_left"] > 0, 1, -1)
        lanes = np.choose(side > 0, [self.scene["left"], self.scene["right"]])
        room = np.asarray(lanes > 0)
        room &= ~((self.scene["two_way"] > 0) & (side == yellow)) & (self.speed > 8)
        self._change_side = np.where(room & draw.chance(0.15), side, 0)
        self._change_time = draw.between(0.2, 5)
        self._changing = np.zeros(draw.drives, bool)

    def step(self, seconds: float) -> None:
        """Move everything on."""
        random = self._draw
        accel = self._acceleration
        moved = np.maximum(self.speed + 0.5 * accel * seconds, 0) * seconds
        slower = np.minimum((self.speed + accel * seconds) / np.maximum(self.speed, 0.1), 1)
        self.offset_rate = self.offset_rate * np.maximum(slower, 0)
        self._along = self._along + moved
        self._bearing = self._bearing + moved * self._curvature()
        self.speed = np.maximum(self.speed + accel * seconds, 0).astype(np.float32)
        self._car_x = self._car_x + self._car_speed * seconds - moved[:, None]
        forward = np.maximum(self._car_speed + self._car_acceleration * seconds, 0)
        self._car_speed = np.where(self._oncoming, self._car_speed, forward)
        # Accelerations fade, or every drive would end at a standstill or at top speed.
        self._car_acceleration = self._car_acceleration * np.exp(-seconds / 4)
        self._recycle()
        self._steer(seconds, random)
        keep = np.exp(-seconds / 0.3)
        self._bump = keep * self._bump + random.normal(0.0025) * np.sqrt(1 - keep * keep)
        self._time += seconds
        self._frame += 1
        self._acceleration = self._drive_acceleration()

    def _steer(self, seconds: float, draw: Draw) -> None:
        starts = (self._change_side != 0) & (self._time + seconds >= self._change_time)
        width = self.scene["lane_width"]
        self.pulse = np.where(
            starts, np.where(self._change_side < 0, LANE_CHANGE_LEFT, LANE_CHANGE_RIGHT), 0
        )
        self._changing |= starts
        self.target = np.where(starts, self.target + self._change_side * width, self.target)
        self._change_side = np.where(starts, 0, self._change_side)
        away = self.offset - self.target
        spring = steer_rate(self.speed)
        rise = self.offset_rate + spring * away
        fade = np.exp(-spring * seconds)
        self.offset = (self.target + (away + rise * seconds) * fade).astype(np.float32)
        kick = draw.normal(0.12) * np.sqrt(seconds) * self._agility
        rate = (self.offset_rate - spring * rise * seconds) * fade
        self.offset_rate = (rate + kick).astype(np.float32)
        self._changing &= np.abs(self.offset - self.target) > 0.3

    def _recycle(self) -> None:
        """Vehicles far behind come back far ahead, so that a long drive stays busy."""
        gone = self._car_x < -60
        self._car_x = np.where(gone, self._car_x + 260, self._car_x)
        self._car_x = np.where(self._car_x > 320, self._car_x - 370, self._car_x)

    def _curvature(self) -> Floats:
        turn = np.sin(2 * np.pi * self._along / self._wave + self._phase)
        return np.asarray(self._bend * turn, np.float32)

    def _lane(self) -> Floats:
        return np.asarray(np.rint(self.offset / self.scene["lane_width"]), np.float32)

    def _lead(self) -> tuple[np.ndarray, np.ndarray]:
        """Index of the nearest vehicle ahead in our lane, and its distance."""
        ours = self._car_on & (self._car_lane == self._lane()[:, None]) & ~self._oncoming
        x = np.where(ours & (self._car_x > 2), self._car_x, _NO_LEAD)
        x = np.where(x > 160, _NO_LEAD, x)
        index = np.argmin(x, axis=1)
        return index, np.take_along_axis(x, index[:, None], 1)[:, 0]

    def _drive_acceleration(self) -> Floats:
        index, gap = self._lead()
        other = np.take_along_axis(self._car_speed, index[:, None], 1)[:, 0]
        closing = np.where(gap < _NO_LEAD, self.speed - other, 0)
        comfort = 2 * np.sqrt(_COMFORT_ACCELERATION * _COMFORT_BRAKING)
        wish = _STANDSTILL_GAP + self.speed * np.maximum(_TIME_GAP + closing / comfort, 0.3)
        free = (self.speed / np.maximum(self._wanted, 0.1)) ** 4
        accel = _COMFORT_ACCELERATION * (1 - free - (wish / np.maximum(gap, 1)) ** 2)
        parked = (self._wanted <= 0.2) & (self.speed < 0.3)
        return np.where(parked, 0, np.clip(accel, -5, 1.5)).astype(np.float32)

    def moment(self) -> Moment:
        """The present instant."""
        scene = dict(self.scene)
        phase = 2 * np.pi * self._along / self._wave + self._phase
        heading = self.offset_rate / np.maximum(self.speed, 3)
        scene["along"] = self._along
        scene["c0"] = -self.offset
        scene["c1"] = self._yaw_error - heading
        scene["c2"] = 0.5 * self._bend * np.sin(phase)
        scene["c3"] = self._bend * np.cos(phase) * 2 * np.pi / self._wave / 6
        scene["pitch"] = self._pitch + self._bump + 0.003 * self._acceleration
        scene["roll"], scene["crest"] = self._roll, self._crest
        scene["bearing"] = self._bearing
        scene["frame_seed"] = scene["seed"] + 7919.0 * (self._frame % 1000)
        self._place_vehicles(scene)
        index, gap = self._lead()
        at = index[:, None]
        lead_x = np.where(gap < _NO_LEAD, gap, 0)
        change = np.where(self.target > self.offset, LANE_CHANGE_RIGHT, LANE_CHANGE_LEFT)
        numbers = {name: np.asarray(value, np.float32) for name, value in scene.items()}
        return Moment(
            scene=numbers,
            speed=self.speed,
            acceleration=self._acceleration,
            offset=self.offset,
            offset_rate=self.offset_rate,
            target=self.target,
            yaw_error=self._yaw_error,
            lead_x=gap.astype(np.float32),
            lead_y=self._across(numbers, lead_x, np.take_along_axis(self._aside(), at, 1)[:, 0]),
            lead_speed=np.take_along_axis(self._car_speed, at, 1)[:, 0].astype(np.float32),
            lead_acceleration=np.take_along_axis(self._car_acceleration, at, 1)[:, 0].astype(
                np.float32
            ),
            desire=np.where(self._changing, change, 0).astype(np.float32),
            pulse=np.asarray(getattr(self, "pulse", 0 * self.speed), np.float32),
        )

    def _aside(self) -> np.ndarray:
        """Metres right of the first lane's middle, of each vehicle."""
        width = self.scene["lane_width"][:, None]
        aside: np.ndarray = self._car_lane * width + self._car_aside
        return aside

    @staticmethod
    def _across(scene: Scene, x: np.ndarray, aside: np.ndarray) -> Floats:
        y = scene["c0"] + x * (scene["c1"] + x * (scene["c2"] + x * scene["c3"]))
        slope = scene["c1"] + x * (2 * scene["c2"] + 3 * x * scene["c3"])
        return np.asarray(y + aside * np.sqrt(1 + slope * slope), np.float32)

    def _place_vehicles(self, scene: Scene) -> None:
        """Vehicle parameters from far to near, which is the order of painting."""
        order = np.argsort(-self._car_x, axis=1)
        x = np.take_along_axis(self._car_x, order, 1)
        aside = np.take_along_axis(self._aside(), order, 1)
        on = np.take_along_axis(self._car_on, order, 1) & (x < 300)
        oncoming = np.take_along_axis(self._oncoming, order, 1)
        for part in VEHICLE_FIXED:
            lamp = part.startswith("lamp_")
            names = [
                f"{part.replace('_', f'{i}_')}" if lamp else f"car{i}_{part}"
                for i in range(VEHICLES)
            ]
            looks = np.stack([self.scene[name] for name in names], 1)
            looks = np.take_along_axis(looks, order, 1)
            scene |= {name: looks[:, i] for i, name in enumerate(names)}
        for i in range(VEHICLES):
            for channel in "gb":  # oncoming vehicles show white lamps
                name = f"lamp{i}_{channel}"
                scene[name] = np.where(oncoming[:, i], 0.9 * scene[f"lamp{i}_r"], scene[name])
            scene[f"car{i}_x"] = x[:, i]
            scene[f"car{i}_y"] = self._across(scene, x[:, i], aside[:, i])
            scene[f"car{i}_slope"] = scene["c1"] + x[:, i] * (
                2 * scene["c2"] + 3 * x[:, i] * scene["c3"]
            )
            scene[f"car{i}_on"] = on[:, i]


def parameter_rows(scene: Scene) -> Floats:
    """A scene as an array (drives, parameters) in the order of `PARAMETERS`."""
    return np.stack([np.asarray(scene[name], np.float32) for name in PARAMETERS], axis=-1)
