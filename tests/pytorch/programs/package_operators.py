# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the operators of PyTorch's own tests (its list of OpInfo) on the CPU and on the GPU, on the inputs that these tests have.

Prints each operator with results that differ, and in the end how many are equal and how many were left out.
"""

import argparse
import sys
import warnings
from unittest import mock

import torch
from torch.utils._pytree import tree_map

warnings.simplefilter("ignore")
# PyTorch's tests import what compiles extensions, and Debian's PyTorch comes here without the rest of setuptools.
torch.utils.cpp_extension = sys.modules["torch.utils.cpp_extension"] = mock.MagicMock(__spec__=None)
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

# Why operators are not compared, by their names.
LEFT_OUT = {
    "memory that nothing was written to": "empty empty_like empty_permuted empty_strided new_empty new_empty_strided resize_ resize_as_",
    "random numbers": """bernoulli cauchy exponential geometric log_normal multinomial normal rand_like randint randint_like
        randn randn_like uniform nn.functional.alpha_dropout nn.functional.dropout nn.functional.dropout2d
        nn.functional.dropout3d nn.functional.feature_alpha_dropout nn.functional.fractional_max_pool2d
        nn.functional.fractional_max_pool3d nn.functional.rrelu""",
    "arguments that name a device, or have to be on the CPU": "to tensor_split",
    "what it keeps for its gradient is another thing on the CPU": "native_batch_norm _native_batch_norm_legit",
    "not for CUDA in PyTorch, or not by its default": "sparse.mm.reduce linalg.lstsq",
}
LEFT_OUT = {name: why for why, names in LEFT_OUT.items() for name in names.split()}
TOLERANCE = {torch.float16: 2e-2, torch.bfloat16: 5e-2, torch.float64: 1e-6, torch.complex128: 1e-6}


def on_tensors(change, value):
    return tree_map(lambda x: change(x) if isinstance(x, torch.Tensor) else x, value)


def compute(operator, sample, change, seed=0):
    """The operator's result with change applied to each tensor of the sample, on the CPU."""
    torch.manual_seed(seed)
    result = operator(on_tensors(change, sample.input), *on_tensors(change, sample.args), **on_tensors(change, sample.kwargs))
    return on_tensors(lambda x: x.detach().cpu(), sample.output_process_fn_grad(result))


def describe_difference(one, other, tolerance):
    """How two results differ, or None."""
    try:
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance, equal_nan=True, check_stride=False)
    except AssertionError as error:
        return str(error).splitlines()[0]
    return None


def check(info, dtype, samples):
    """None where all results are equal, why the operator cannot be compared, or how it differs."""
    tolerance = TOLERANCE.get(dtype, 2e-3)
    compared = 0
    inputs = list(info.sample_inputs("cpu", dtype, requires_grad=False))
    inputs = [i for i in inputs if not i.kwargs.get("dropout_p")]
    for sample in inputs[:: max(1, len(inputs) // samples)][:samples]:
        try:
            want = compute(info.op, sample, torch.clone)
        except (RuntimeError, NotImplementedError):  # not for the CPU
            continue
        if describe_difference(want, compute(info.op, sample, torch.clone, seed=1), tolerance):
            return "random", None
        if "device" in sample.kwargs:
            sample.kwargs["device"] = "cuda"
        if difference := describe_difference(compute(info.op, sample, torch.Tensor.cuda), want, tolerance):
            return None, difference
        compared += 1
    return (None, None) if compared else ("nothing to compare", None)


def run():
    parser = argparse.ArgumentParser()
    parser.add_argument("--type", default="float32")
    parser.add_argument("--every", type=int, default=1, help="compare each n-th operator only")
    parser.add_argument("--samples", type=int, default=4, help="inputs of each operator")
    options = parser.parse_args()
    dtype = getattr(torch, options.type)
    equal, left, wrong = 0, 0, 0
    for info in op_db[:: options.every]:
        names = {info.name, f"{info.name}.{info.variant_test_name}"}
        if names & LEFT_OUT.keys() or dtype not in info.dtypes or dtype not in info.supported_dtypes("cuda"):
            left += 1
            continue
        try:
            reason, difference = check(info, dtype, options.samples)
        except Exception as error:  # the other operators are tried too
            reason, difference = None, f"{type(error).__name__}: {str(error).splitlines()[0]}"
        equal += reason is None and difference is None
        left += reason is not None
        if difference:
            wrong += 1
            print(f"{info.name} {info.variant_test_name}: {difference}", flush=True)
    print(f"{equal} equal, {left} left out, {wrong} wrong")
    return wrong > 0


sys.exit(run())
