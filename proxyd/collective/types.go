// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import "fmt"

// Type is the type of an element. The numbers are from NCCL's ABI.
type Type uint8

// The types, in NCCL's order.
const (
	Int8 Type = iota
	Uint8
	Int32
	Uint32
	Int64
	Uint64
	Float16
	Float32
	Float64
	BFloat16
	Float8E4M3
	Float8E5M2
	types // how many there are
)

var typeTable = [types]struct {
	name string
	size int
}{
	Int8:       {"int8", 1},
	Uint8:      {"uint8", 1},
	Int32:      {"int32", 4},
	Uint32:     {"uint32", 4},
	Int64:      {"int64", 8},
	Uint64:     {"uint64", 8},
	Float16:    {"float16", 2},
	Float32:    {"float32", 4},
	Float64:    {"float64", 8},
	BFloat16:   {"bfloat16", 2},
	Float8E4M3: {"float8e4m3", 1},
	Float8E5M2: {"float8e5m2", 1},
}

// Size is the number of bytes of an element, or 0 if t is no type.
func (t Type) Size() int {
	if t >= types {
		return 0
	}
	return typeTable[t].size
}

func (t Type) String() string {
	if t >= types {
		return fmt.Sprintf("type %d", uint8(t))
	}
	return typeTable[t].name
}

// Reduction is how elements are combined. The numbers up to Avg are from NCCL's ABI.
type Reduction uint8

// The reductions. The package comment defines each of them for each type.
const (
	Sum Reduction = iota
	Prod
	Max
	Min
	Avg
	PreMulSum
	reductions // how many there are
)

var reductionNames = [reductions]string{"sum", "prod", "max", "min", "avg", "premulsum"}

func (r Reduction) String() string {
	if r >= reductions {
		return fmt.Sprintf("reduction %d", uint8(r))
	}
	return reductionNames[r]
}

// Kind is the kind of an operation.
type Kind uint8

// The kinds. Send and Recv are between two ranks; all other kinds are collectives: every rank of
// the communicator takes part.
const (
	AllReduce Kind = iota
	Reduce
	ReduceScatter
	Broadcast
	AllGather
	AllToAll
	Gather
	Scatter
	Send
	Recv
	kinds      // how many a caller may name
	splitRanks = kinds
)

var kindNames = [...]string{
	"all-reduce", "reduce", "reduce-scatter", "broadcast", "all-gather", "all-to-all",
	"gather", "scatter", "send", "recv", "split",
}

func (k Kind) String() string {
	if int(k) >= len(kindNames) {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return kindNames[k]
}

// isReduction tells whether operations of this kind compute.
func (k Kind) isReduction() bool { return k <= ReduceScatter }

// hasRoot tells whether Op.Root means something.
func (k Kind) hasRoot() bool {
	return k == Reduce || k == Broadcast || k == Gather || k == Scatter
}
