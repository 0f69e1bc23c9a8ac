from pathlib import Path

import pytest

from modeld.config import Config, MessagesConfig, VehicleConfig, load_config
from modeld.errors import ModeldError
from modeld.realtime import RealtimeConfig


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "modeld.toml"
    path.write_text(text)
    return path


def test_empty_file_is_all_defaults(tmp_path: Path) -> None:
    assert load_config(written(tmp_path, "")) == Config()


def test_every_key(tmp_path: Path) -> None:
    text = """
    [vehicle]
    longitudinal_actuator_delay = 1
    lateral_delay = 0.25
    right_hand_drive = true
    [messages]
    bind = "*"
    connect = "192.168.0.10"
    raw_predictions = true
    [realtime]
    priority = 54
    cores = [6, 7]
    """
    assert load_config(written(tmp_path, text)) == Config(
        VehicleConfig(1.0, 0.25, True),
        MessagesConfig("*", "192.168.0.10", True),
        RealtimeConfig(54, (6, 7)),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[vehicle]\nlateral_dealy = 1", "unknown key vehicle.lateral_dealy; known: lateral_delay"),
        ("[car]", "unknown key car; known: messages, realtime, vehicle"),
        ("vehicle = 3", "vehicle is 3, expected a table"),
        ("[vehicle]\nlateral_delay = 'x'", "lateral_delay is 'x', expected a finite number"),
        ("[vehicle]\nlateral_delay = nan", "lateral_delay is nan, expected a finite number"),
        ("[vehicle]\nright_hand_drive = 1", "right_hand_drive is 1, expected a boolean"),
        ("[realtime]\npriority = true", "priority is True, expected a whole number"),
        ("[realtime]\ncores = 7", "cores is 7, expected a list"),
        ("[realtime]\ncores = [7.5]", "cores is 7.5, expected a whole number"),
        ("[messages]\nbind = 5", "bind is 5, expected a string"),
        ("[vehicle", "is not TOML"),
    ],
)
def test_faults_name_file_key_and_remedy(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ModeldError, match=message) as caught:
        load_config(written(tmp_path, text))
    assert "modeld.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_and_binary_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModeldError, match=r"none.toml cannot be read \(No such file"):
        load_config(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ModeldError, match="is not TOML"):
        load_config(tmp_path / "binary.toml")
