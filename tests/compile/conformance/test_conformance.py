"""A cross-section of the onnx backend suite through the whole path, and the harness itself.

`make conformance` runs all cases.
"""

import dataclasses
from collections.abc import Mapping

import numpy as np
import pytest

from compile.conformance.cases import Case, load_cases
from compile.conformance.report import KNOWN_FAILURES, deviations, known_failures, page
from compile.conformance.run import Result, Status, peer_passes, run_case

# One or two of each family, mostly those that tinygrad alone refuses or gets wrong.
CASES = (
    "test_add_bcast",
    "test_ai_onnx_ml_tree_ensemble_set_membership",
    "test_argmin_negative_axis_keepdims_example_select_last_index",
    "test_attention_24_fullymasked_qk_matmul_output_mode3_zero",
    "test_attention_4d_causal_nonpad_batch_prefill",
    "test_attention_4d_softcap_neginf_mask",
    "test_averagepool_2d_ceil_last_window_starts_on_pad",
    "test_bitcast_float32_to_int32",
    "test_cast_FLOAT_to_FLOAT16",
    "test_causal_conv_with_state_basic",
    "test_col2im_pads",
    "test_det_nd",
    "test_dropout_default_mask",
    "test_dynamicquantizelinear",
    "test_einsum_batch_diagonal",
    "test_eyelike_with_dtype",
    "test_gathernd_example_int32_batch_dim1",
    "test_gridsample_bicubic_align_corners_1_additional_1",
    "test_hannwindow",
    "test_if",
    "test_loop11",
    "test_lstm_with_peepholes",
    "test_mod_float_edge_cases_fmod_0_float32",
    "test_nonmaxsuppression_two_classes",
    "test_nonzero_example",
    "test_qlinearconv",
    "test_resize_tf_crop_and_resize_extrapolation_value",
    "test_rotary_embedding_interleaved",
    "test_scan9_sum",
    "test_sequence_model7",
    "test_stft_with_window",
    "test_tfidfvectorizer_tf_uniandbigrams_skip5",
)


@pytest.fixture(scope="module")
def cases() -> Mapping[str, Case]:
    return load_cases()


@pytest.mark.parametrize("name", CASES)
def test_through_build_artifact_and_executor(name: str, cases: Mapping[str, Case]) -> None:
    result = run_case(cases[name])
    assert (result.status, result.detail) == (Status.PASSED, "")


def test_the_suite_is_the_one_the_page_speaks_of(cases: Mapping[str, Case]) -> None:
    assert len(cases) == 1346
    assert len({name for case in cases.values() for name in case.operators}) > 190
    assert known_failures().keys() <= cases.keys()


def test_a_wrong_value_is_found(cases: Mapping[str, Case]) -> None:
    case = cases["test_abs"]
    (name,) = case.outputs
    off = case.outputs[name].copy()
    off.flat[3] += 0.01
    result = run_case(dataclasses.replace(case, outputs={name: off}))
    assert result.status is Status.WRONG
    assert result.detail == f"1 of {off.size} values of {name} differ"
    assert not result.peer


def test_shapes_and_types_are_compared(cases: Mapping[str, Case]) -> None:
    case = cases["test_abs"]
    assert "float64" in case.difference({"y": case.outputs["y"].astype(np.float64)})
    assert "[60]" in case.difference({"y": case.outputs["y"].reshape(-1)})
    assert case.difference(case.outputs) == ""


def test_nan_and_infinity_must_be_where_they_are_expected(cases: Mapping[str, Case]) -> None:
    special = np.array([np.nan, np.inf, 1], np.float32)
    case = dataclasses.replace(cases["test_abs"], outputs={"y": special})
    assert case.difference({"y": special}) == ""
    assert case.difference({"y": np.array([0, np.inf, 1], np.float32)})
    assert case.difference({"y": np.array([np.nan, -np.inf, 1], np.float32)})


def test_a_refusal_says_why(cases: Mapping[str, Case]) -> None:
    result = run_case(cases["test_bernoulli"])
    assert result.status is Status.REFUSED
    assert "random values at inference" in result.detail


def test_inputs_that_decide_shapes_are_frozen_and_no_others(cases: Mapping[str, Case]) -> None:
    assert run_case(cases["test_expand_dim_changed"]).frozen == ("new_shape",)
    assert run_case(cases["test_add"]).frozen == ()


def test_onnxruntime_is_asked_for_the_same(cases: Mapping[str, Case]) -> None:
    assert peer_passes(cases["test_abs"])
    assert not peer_passes(cases["test_lstm_batchwise"])


def result_of(name: str, status: Status, peer: bool = True) -> Result:
    return Result(name, ("Add",), status, "" if status is Status.PASSED else "no", (), peer)


def test_deviations_from_the_known_failures() -> None:
    results = [
        result_of("new", Status.WRONG),
        result_of("old", Status.REFUSED),
        result_of("healed", Status.PASSED),
    ]
    found = deviations(results, {"old": "why", "healed": "why", "elsewhere": "why"})
    assert [result.name for result in found.new] == ["new"]
    assert found.gone == ("healed",)


def test_the_page_counts_and_lists() -> None:
    results = [result_of("good", Status.PASSED), result_of("bad", Status.REFUSED, peer=False)]
    text = page(results, {"bad": "because"}, 1e-3, 1e-5)
    assert "| passed | 1 |" in text
    assert "| passed of those | 1 |" in text
    assert "| Add | 2 | 1 | 1 |" in text
    assert "**because**\n\n`bad` (nor ONNX Runtime)" in text


def test_known_failures_have_reasons() -> None:
    assert KNOWN_FAILURES.exists()
    assert all(len(reason) > 20 for reason in known_failures().values())
