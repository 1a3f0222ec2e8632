// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package backend

// TensorMap tells kernels of newer devices how to copy tiles of a tensor. It is opaque, and made by the
// driver.
type TensorMap [16]uint64

// TensorShape has the arguments of a TensorMap. Fields that its kind does not have are 0.
type TensorShape struct {
	Kind                                             TensorKind
	Type, Interleave, Mode, Swizzle, Promotion, Fill int32 // as the driver numbers them
	Rank, Channels, Pixels                           uint32
	Address                                          Addr
	Dim, Strides                                     [MaxTensorRank]uint64
	Box, Steps                                       [MaxTensorRank]uint32
	Lower, Upper                                     [MaxTensorRank]int32
}

// MaxTensorRank is how many dimensions a tensor of a TensorMap may have.
const MaxTensorRank = 5

// TensorKind is a kind of TensorShape.
type TensorKind int32

// The kinds.
const (
	TensorTiled TensorKind = iota
	TensorIm2col
	TensorIm2colWide
)

// TensorMapper is a Device whose kernels copy by tensor maps.
type TensorMapper interface {
	MakeTensorMap(*TensorShape) (TensorMap, error)
	// MoveTensorMap returns a map like another, for the same tensor at another address.
	MoveTensorMap(TensorMap, Addr) (TensorMap, error)
}

// ProcessorGrouper is a Device that knows how its multiprocessors are grouped, which some libraries ask.
type ProcessorGrouper interface {
	// ProcessorGroups returns a byte for each pair of multiprocessors, in two orders.
	ProcessorGroups() (groups, order []byte, err error)
}
