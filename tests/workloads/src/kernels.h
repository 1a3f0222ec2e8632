// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* The names of the kernels in ptx/, where each is described. */
#ifndef KERNELS_H
#define KERNELS_H

#define KERNEL_NAMES(X)                                                                                                    \
	X(fill_uniform) X(mix) X(sum_of) X(add_bias) X(relu) X(relu_gradient) X(gelu) X(gelu_gradient) X(tanh_of_sum) X(adam) \
	X(gemm) X(normalise) X(normalise_gradient) X(causal_softmax) X(causal_softmax_gradient) X(cross_entropy) X(largest)   \
	X(sum_rows) X(normalise_gain_gradient) X(embed) X(embed_gradient) X(total)

enum kernel {
#define X(name) K_##name,
	KERNEL_NAMES(X)
#undef X
	KERNELS
};

#endif
