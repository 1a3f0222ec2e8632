// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package api

// Lib is the library that a call belongs to.
type Lib string

// The libraries.
const (
	Driver Lib = "driver"
	NCCL   Lib = "nccl"
	NVML   Lib = "nvml"
	LibC   Lib = "libc" // with interceptors that are not generated
)

// LiburingCalls are the calls of liburing that libsingshim.so refuses (shim/refuse_calls.c). They have no rows: programs that do
// without liburing do not have them.
var LiburingCalls = []string{"io_uring_queue_init", "io_uring_queue_init_mem", "io_uring_queue_init_params", "io_uring_setup"}

// BlasCalls are the calls of cuBLAS that libsingshim-device.so has a software GPU carry out, or hands on to the vendor's library
// (shim/device/blas.c). They have no rows: they launch kernels.
var BlasCalls = []string{
	"cublasDgemmStridedBatched", "cublasDgemm_v2", "cublasGemmEx", "cublasGemmStridedBatchedEx", "cublasLtMatmul",
	"cublasSgemmEx", "cublasSgemmStridedBatched", "cublasSgemm_v2",
}

// Kind says how a call is carried out; see the package's comment.
type Kind string

// The kinds.
const (
	Async    Kind = "async"
	Counted  Kind = "counted"
	Sync     Kind = "sync"
	Stateful Kind = "stateful"
	Cached   Kind = "cached"
	Local    Kind = "local"
	Aware    Kind = "aware"
	Same     Kind = "same"
	Planned  Kind = "planned"
	Refused  Kind = "refused"
)

// Dir is the direction of an argument.
type Dir string

// The directions. Val is a struct that is passed by value.
const (
	In    Dir = "in"
	Out   Dir = "out"
	InOut Dir = "inout"
	Val   Dir = "val"
)

// Verb is the effect of a call on the object behind a handle.
type Verb string

// The verbs. None is the verb of arguments that are no handles, and of handles that are handed out.
const (
	None   Verb = ""
	Use    Verb = "use"
	Make   Verb = "make"
	Change Verb = "change"
	Break  Verb = "break"
)

// Maker says which side makes up the values of a class of handles.
type Maker string

// The makers. Objects of a class that is refused never exist.
const (
	ByClient  Maker = "client"
	ByServer  Maker = "server"
	ByRefusal Maker = "refused"
)

// Type is a scalar, a handle or a struct, as the word in front says.
type Type struct {
	Word string
	C    string
	Wire string // of scalars and handles: u8 … f64, "" for a type that is never sent

	Handle bool
	Maker  Maker  // of handles
	Of     string // of handles: ends with a handle of that class

	Struct bool
	Size   int // of structs, in bytes, as C has them
	Align  int
	Fields []Field
}

// Field is a member of a struct, placed by C's rules.
type Field struct {
	Name   string
	Type   *Type
	N      int // elements; 0: no array
	Offset int
}

// Count is the number of elements of an array. The zero value means that the argument is no array.
type Count struct {
	Fixed int
	Arg   string // the argument that holds the count
	Deref bool   // that argument points to the count: the capacity, then the length
}

// IsArray tells whether there are elements at all.
func (c Count) IsArray() bool { return c.Fixed > 0 || c.Arg != "" }

// Arg is an argument of a call.
type Arg struct {
	Name  string
	Dir   Dir
	Verb  Verb
	Opt   bool
	Type  *Type
	Count Count
}

// Call is a row: a public call, or a message.
type Call struct {
	Symbol      string
	Name        string // the name by which cuGetProcAddress finds the call
	Version     int
	Also        string // another name of the call, from AlsoVersion on
	AlsoVersion int
	PerThread   string // "", "ptds" or "ptsz"
	Kind        Kind
	Via         []string // of Aware: the messages; of Same: the symbol
	Reason      string   // of Refused: the text
	Unwritten   bool
	Message     bool
	Always      bool
	Replaces    bool
	Free        bool
	Gone        int
	Changes     string
	Returns     string
	Unsure      string
	Args        []Arg
	Area        *Area
	File        string
	Line        int
}

// Area is the content of a file.
type Area struct {
	Name  string
	Lib   Lib
	Free  bool
	Title string
	Calls []*Call // in the order of the file
}

// Result is a value that calls of a library return.
type Result struct {
	Lib    Lib
	Number int
	Name   string
	Text   string
}

// Enum is a set of numbers. C's name of each is Prefix and its own.
type Enum struct {
	Word   string
	Prefix string
	Names  []string
	Values []int
}

// Table is the whole table. A Table is not changed after Load.
type Table struct {
	Types   []*Type
	Areas   []*Area
	Results []Result
	Enums   []Enum

	words   map[string]*Type
	symbols map[string]*Call
}

// Calls yields every row, messages too, in the order of areas and files.
func (t *Table) Calls(yield func(*Call) bool) {
	for _, a := range t.Areas {
		for _, c := range a.Calls {
			if !yield(c) {
				return
			}
		}
	}
}

// Call returns the row of a symbol or message, or nil.
func (t *Table) Call(symbol string) *Call { return t.symbols[symbol] }

// Type returns the type of that word, or nil.
func (t *Table) Type(word string) *Type { return t.words[word] }

// Arg returns the argument of that name, or nil.
func (c *Call) Arg(name string) *Arg {
	for i := range c.Args {
		if c.Args[i].Name == name {
			return &c.Args[i]
		}
	}
	return nil
}

// Generated tells whether the exported function is made from the row alone.
func (c *Call) Generated() bool {
	switch c.Kind {
	case Async, Counted, Sync, Stateful, Cached:
		return !c.Message
	}
	return false
}

// Shipped tells whether the row is a message: the server's dispatch knows it.
func (c *Call) Shipped() bool {
	switch c.Kind {
	case Async, Counted, Sync, Stateful, Cached:
		return true
	}
	return c.Kind == Aware && len(c.Via) == 0
}

// PerThreadSymbol is the function for callers with a default stream per thread, "" if there is
// no such function.
func (c *Call) PerThreadSymbol() string {
	if c.PerThread == "" {
		return ""
	}
	return c.Symbol + "_" + c.PerThread
}

// ProfiledSymbol is the name under which a profiler that stands in for a function of NCCL's finds
// the function itself, "" for functions of other libraries.
func (c *Call) ProfiledSymbol() string {
	if c.Area.Lib != NCCL {
		return ""
	}
	return "p" + c.Symbol
}

// PerThreadVersion is the version from which cuGetProcAddress finds PerThreadSymbol: such
// functions came with 7.0.
func (c *Call) PerThreadVersion() int { return max(c.Version, 7000) }
