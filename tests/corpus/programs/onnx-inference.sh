#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: ONNX Runtime: a graph of convolutions and another with an LSTM are made, optimised and answer with two threads
# Needs: python3-onnxruntime python3-onnx python3-numpy
#SBATCH --job-name=onnx-inference --ntasks=1 --output=log
set -eu
cat >answer.py <<'PY'
import hashlib, time
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

rng = np.random.default_rng(2)

def weights(name, *shape):
    return numpy_helper.from_array((rng.normal(size=shape) / np.sqrt(shape[-1])).astype("f4"), name)

def write(name, nodes, inputs, outputs, initial):
    values = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in list] for list in (inputs, outputs)]
    model = helper.make_model(helper.make_graph(nodes, name, *values, initial), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, name)

write("pictures.onnx", [
    helper.make_node("Conv", ["x", "w1"], ["a"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    helper.make_node("Relu", ["a"], ["b"]),
    helper.make_node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
    helper.make_node("Conv", ["c", "w2"], ["d"], kernel_shape=[3, 3]),
    helper.make_node("Relu", ["d"], ["e"]),
    helper.make_node("GlobalAveragePool", ["e"], ["f"]),
    helper.make_node("Flatten", ["f"], ["g"]),
    helper.make_node("Gemm", ["g", "w3"], ["h"]),
    helper.make_node("Softmax", ["h"], ["y"]),
], [("x", ["n", 3, 32, 32])], [("y", ["n", 10])], [weights("w1", 16, 3, 3, 3), weights("w2", 32, 16, 3, 3), weights("w3", 32, 10)])
write("series.onnx", [
    helper.make_node("LSTM", ["x", "w", "r"], ["y", "h"], hidden_size=24),
], [("x", [20, 1, 6])], [("y", [20, 1, 1, 24]), ("h", [1, 1, 24])], [weights("w", 1, 96, 6), weights("r", 1, 96, 24)])
options = ort.SessionOptions()
options.intra_op_num_threads = 2
options.optimized_model_filepath = "optimised.onnx"
print("starting", flush=True)
pictures = ort.InferenceSession("pictures.onnx", options, providers=["CPUExecutionProvider"])
series = ort.InferenceSession("series.onnx", providers=["CPUExecutionProvider"])
h, state = hashlib.sha256(), rng.normal(size=(20, 1, 6)).astype("f4")
for turn in range(1, 81):
    (y,) = pictures.run(None, {"x": rng.normal(size=(8, 3, 32, 32)).astype("f4")})
    out, last = series.run(None, {"x": state})
    state = np.roll(state, 1, axis=0)
    state[0, 0] = last[0, 0, :6]
    h.update(y.round(4).tobytes() + last.round(4).tobytes())
    if turn % 10 == 0:
        print("turn", turn, y.argmax(1).tolist(), h.hexdigest()[:16], flush=True)
    time.sleep(0.06)
PY
python3 answer.py 2>warnings # Debian's two libraries register the same operators
rm answer.py warnings ./*.onnx
