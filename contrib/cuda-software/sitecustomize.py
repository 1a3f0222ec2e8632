# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
"""Tells PyTorch, as soon as it is imported, that there is no cuDNN, and keeps a false alarm of PyTorch's quiet.

The tree's libcudnn is a stand-in without any function (see cudnn-stub). PyTorch has kernels of its own for what
cuDNN would compute, and uses them when `torch.backends.cudnn.enabled` is false.

PyTorch warns that it has no machine code for a device of compute capability 10.0. Its PTX runs there.
"""

import importlib.abc
import importlib.machinery
import sys
import warnings


class TorchFinder(importlib.abc.MetaPathFinder):
    """Finds torch as Python does, once, and disables cuDNN behind the import."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_disable(module):
            execute(module)
            module.backends.cudnn.enabled = False

        spec.loader.exec_module = execute_and_disable
        return spec


warnings.filterwarnings("ignore", message=r"\s*Singularity software GPU with CUDA capability", category=UserWarning)
sys.meta_path.insert(0, TorchFinder())
