// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bufio"
	"errors"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func readTable(t testing.TB) *Table {
	t.Helper()
	tb, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	return tb
}

// TestTheSymbolsOfALoader: a program that looks all symbols up before its first call must find all of them.
func TestTheSymbolsOfALoader(t *testing.T) {
	f, err := os.Open("testdata/loader-wants.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tb := readTable(t)
	n := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		symbol := lines.Text()
		if strings.HasPrefix(symbol, "#") {
			continue
		}
		n++
		if c := tb.Call(symbol); c == nil || c.Message {
			t.Errorf("the table has no call %s", symbol)
		}
	}
	if n != 145 {
		t.Errorf("%d symbols, want 145", n)
	}
}

// TestVersions: the look-ups that libcudart 12 makes of a single name in several versions.
func TestVersions(t *testing.T) {
	for _, tc := range []struct {
		name      string
		version   int
		perThread bool
		want      string
	}{
		{"cuMemAlloc", 2000, false, "cuMemAlloc"},
		{"cuMemAlloc", 3019, false, "cuMemAlloc"},
		{"cuMemAlloc", 3020, false, "cuMemAlloc_v2"},
		{"cuMemAlloc", 12040, true, "cuMemAlloc_v2"},
		{"cuStreamGetCaptureInfo", 10010, false, "cuStreamGetCaptureInfo"},
		{"cuStreamGetCaptureInfo", 11030, false, "cuStreamGetCaptureInfo_v2"},
		{"cuStreamGetCaptureInfo", 13000, false, "cuStreamGetCaptureInfo_v3"},
		{"cuStreamGetCaptureInfo", 12030, true, "cuStreamGetCaptureInfo_v3_ptsz"},
		{"cuMemcpyHtoD", 12040, false, "cuMemcpyHtoD_v2"},
		{"cuMemcpyHtoD", 7000, true, "cuMemcpyHtoD_v2_ptds"},
		{"cuMemcpyHtoD", 6050, true, "cuMemcpyHtoD_v2"},
		{"cuGetProcAddress", 11030, false, "cuGetProcAddress"},
		{"cuGetProcAddress", 12000, false, "cuGetProcAddress_v2"},
		{"cuCtxCreate", 12000, false, "cuCtxCreate_v3"},
		{"cuGraphInstantiate", 11000, false, "cuGraphInstantiate_v2"},
		{"cuGraphInstantiate", 12000, false, "cuGraphInstantiateWithFlags"},
		{"cuMemAlloc_v2", 12000, false, ""},
		{"cuLibraryLoadData", 11080, false, ""},
	} {
		if got := findEntry(readTable(t).Entries(), Key{tc.name, tc.version, tc.perThread}); got != tc.want {
			t.Errorf("%s %d per thread %v: %q, want %q", tc.name, tc.version, tc.perThread, got, tc.want)
		}
	}
}

// TestWantsOfCUDA13: programs of CUDA 13 find each function that they ask for, by its name and version.
func TestWantsOfCUDA13(t *testing.T) {
	text, err := os.ReadFile("testdata/cuda13-wants.txt")
	if err != nil {
		t.Fatal(err)
	}
	entries := readTable(t).Entries()
	n := 0
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if words[0] == "#" {
			continue
		}
		version, err := strconv.Atoi(words[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range words[1:] {
			n++
			name, want, other := strings.Cut(word, "=")
			if !other {
				want = name
			}
			if got := findEntry(entries, Key{name, version, false}); got != want {
				t.Errorf("%s %d: %q, want %q", name, version, got, want)
			}
		}
	}
	if n < 480 {
		t.Errorf("%d look-ups, want all", n)
	}
}

// findEntry looks an entry up by the rule of the generated look-up, written in another way.
func findEntry(entries []Entry, k Key) string {
	var best Entry
	for _, e := range entries {
		if e.Name != k.Name || e.Version > k.Version || e.PerThread && !k.PerThread {
			continue
		}
		if best.Symbol == "" || e.PerThread && !best.PerThread || e.PerThread == best.PerThread && e.Version > best.Version {
			best = e
		}
	}
	return best.Symbol
}

// TestFiles: libsingshim.lds exports all of the table's functions of the C library, and LiburingCalls, and no others.
func TestFiles(t *testing.T) {
	text, err := os.ReadFile("../shim/libsingshim.lds")
	if err != nil {
		t.Fatal(err)
	}
	_, exports, _ := strings.Cut(string(text), "global:")
	exports, _, _ = strings.Cut(exports, "/*") // the device half follows
	got := strings.FieldsFunc(exports, func(r rune) bool { return strings.ContainsRune("; \t\n", r) })
	want := slices.Clone(LiburingCalls)
	for c := range readTable(t).Calls {
		if c.Area.Lib == LibC {
			want = append(want, c.Symbol)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("libsingshim.lds has %v\nthe table has %v", got, want)
	}
}

// TestEnums: a single name that is left out would change the numbers of all that follow.
func TestEnums(t *testing.T) {
	for name, want := range map[string]int{
		"CU_DEVICE_ATTRIBUTE_WARP_SIZE": 10, "CU_DEVICE_ATTRIBUTE_PCI_BUS_ID": 33, "CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID": 50,
		"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR": 75, "CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH": 95,
		"CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED": 102, "CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED": 115,
		"CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH": 120, "CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID": 134, "CU_DEVICE_ATTRIBUTE_MAX": 149,
		"CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES": 8, "CU_FUNC_ATTRIBUTE_MAX": 16, "CU_JIT_NUM_OPTIONS": 36,
		"CU_POINTER_ATTRIBUTE_MAPPED": 13, "CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE": 21, "CU_LIMIT_MAX": 10,
		"CU_MEMPOOL_ATTR_USED_MEM_HIGH": 8, "CU_GRAPH_NODE_TYPE_CONDITIONAL": 13, "CU_LAUNCH_ATTRIBUTE_PRIORITY": 8,
		"ncclNumTypes": 12, "ncclNumOps": 5,
	} {
		got := -1
		for _, e := range readTable(t).Enums {
			for i := range e.Names {
				if e.Prefix+e.Names[i] == name {
					got = e.Values[i]
				}
			}
		}
		if got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
}

// TestKinds: the table has the kinds of calls that it exists for.
func TestKinds(t *testing.T) {
	tb := readTable(t)
	shipped := 0
	for c := range tb.Calls {
		if c.Shipped() {
			shipped++
		}
		if c.Kind == Refused && c.Reason == "" {
			t.Errorf("%s is refused without a reason", c.Symbol)
		}
		if c.Message || c.Area.Lib != Driver {
			continue
		}
		if !strings.HasPrefix(c.Symbol, "cu") {
			t.Errorf("%s is not the driver's", c.Symbol)
		}
	}
	if n := len(tb.Symbols()); n < 800 || shipped < 250 {
		t.Errorf("%d symbols, %d messages: rows were lost", n, shipped)
	}
}

func TestOpsStay(t *testing.T) {
	// A restored program has an older shim: these numbers are for ever.
	for symbol, want := range map[string]uint32{"cuMemFree_v2": 0x413e7d7d, "launch": 0x71b83866} {
		if got := readTable(t).Call(symbol).Op(); got != want {
			t.Errorf("%s is %#x, want %#x", symbol, got, want)
		}
	}
}

const preamble = `
scalar u32 "unsigned int" u32
scalar ptr "void *" none
scalar bytes void u8
scalar text char u8
scalar string "const char *" none
handle stream CUstream u64 client
handle comm ncclComm_t u64 client
handle array CUarray u64 refused
area a driver "A"
reason no "because"
call end 2000 stateful (break s:stream)
call begin 2000 stateful (make s:stream)
`

func TestBadTables(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"unknown statement", "cal f 2000 sync ()", `a.tbl:14: "cal" is no statement`},
		{"no kind", "call f 2000 ()", "want a kind"},
		{"wrong kind", "call f 2000 quick ()", `"quick" is no kind`},
		{"no version", "call f sync ()", "a version must be a number"},
		{"unknown type", "call f 2000 sync (x:u33)", "type u33 is not known"},
		{"twice", "call begin 2000 sync ()", "begin is there already"},
		{"argument twice", "call f 2000 sync (x:u32, x:u32)", "argument x is there already"},
		{"quote", `reason x "y`, "a quote is not closed"},
		{"stray mark", "call f 2000 sync (x;u32)", "';' does not belong here"},
		{"not closed", "call f 2000 sync (x:u32", "found the end of the line"},
		{"trailing", "call f 2000 sync () x", `"x" is too much`},
		{"unknown option", "call f 2000 sync quick=1 ()", "is no option"},
		{"unknown reason", "call f 2000 refused=why ()", "reason why is not known"},
		{"verb on a number", "call f 2000 sync (make x:u32)", "x is no handle"},
		{"count missing", "call f 2000 sync (in x:u32[n])", "there is no n to count it"},
		{"count is no number", "call f 2000 sync (in x:u32[n], n:stream)", "n is no number"},
		{"count goes out", "call f 2000 sync (in x:u32[n], out n:u32)", "must be in to count it"},
		{"room for input", "call f 2000 sync (in x:u32[*n], inout n:u32)", "only what is handed out has a room"},
		{"bytes without a length", "call f 2000 sync (in x:bytes)", "x has no length"},
		{"text handed in", "call f 2000 sync (in x:text[n], n:u32)", "string is what is handed in"},
		{"cannot be sent", "call f 2000 sync (x:ptr)", "a ptr cannot be sent"},
		{"posted with an answer", "call f 2000 async (out x:u32)", "what is posted has no answer"},
		{"nothing lasting", "call f 2000 stateful (x:u32)", "makes, changes and breaks nothing"},
		{"something lasting", "call f 2000 sync (change s:stream)", "it leaves something behind"},
		{"nothing cached", "call f 2000 cached (x:u32)", "it answers nothing"},
		{"not counted", "call f 2000 counted (x:u32)", "it does not say for what"},
		{"unwritten", "call f 2000 sync unwritten ()", "written by hand"},
		{"gone before", "call f 2000 sync gone=2000 ()", "before it came"},
		{"same as nothing", "call f 2000 same=g ()", "there is no g"},
		{"same as another", "call f 2000 same=begin (x:u32)", "its arguments are not those of begin"},
		{"no message", "call f 2000 aware=begin+f ()", "f is no message"},
		{"refused class", "call f 2000 sync (a:array)", "a array never exists"},
		{"same key", "call end_v2 2000 sync ()", "are both found as end from 2000"},
		{"ptsz without a stream", "call f 2000 ptsz sync ()", "there is no stream"},
		{"ptds with one", "call f 2000 ptds sync (s:stream)", "but there is a stream"},
		{"two areas", `area b driver "B"`, "a file holds one area"},
		{"never broken", "handle x X u64 server\ncall f 2000 stateful (make x:x)", "x: made, never broken"},
		{"struct's size", "struct s S 9 (a:u32)", "struct s has 4 bytes, not 9"},
		{"struct of pointers", "struct s S 8 (a:ptr)", "ptr cannot be in a struct"},
		{"struct twice", "struct s S 8 (a:u32, a:u32)", "field a is there already"},
		{"same number", `result driver 1 A "a"
result driver 1 B "b"`, "is there already"},
		{"enum without a number", "enum e E_ (A)", "the first name has a number"},
		{"enum's name twice", "enum e E_ (A=1, B=1, A)", "E_A is in e already"},
		{"enum twice", "enum e E_ (A=1)\nenum e F_ (A=1)", "enum e is there already"},
		{"opt number", "call f 2000 sync (opt x:u32)", "it cannot be missing"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tb, err := Parse(File{"a.tbl", preamble + tc.text})
			if err == nil {
				err = tb.Check()
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
	tb, err := Parse(File{"a.tbl", preamble})
	if err != nil || tb.Check() != nil {
		t.Errorf("the preamble is wrong itself: %v, %v", err, tb.Check())
	}
}

func TestContinuation(t *testing.T) {
	if _, err := Parse(File{"a.tbl", "  x\n"}); err == nil || err.Error() != "a.tbl:1: continues nothing" {
		t.Errorf("Parse of a continuation without a line before: error %v", err)
	}
	tb, err := Parse(File{"a.tbl", "scalar u32 \"unsigned int\" u32\narea a driver \"A\"\ncall f 2000\n\t# why\n\tsync (x:u32,\n\ty:u32)\n"})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(tb.Call("f").Args); n != 2 {
		t.Errorf("%d arguments, want 2", n)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(preamble)
	for _, name := range []string{"types", "structs", "stream"} {
		text, err := tables.ReadFile(name + ".tbl")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		tb, err := Parse(File{"x.tbl", text})
		var wrong *ParseError
		if err != nil {
			if !errors.As(err, &wrong) || wrong.Line < 1 || wrong.Line > 1+strings.Count(text, "\n") {
				t.Fatalf("error %v says no line", err)
			}
			return
		}
		_ = tb.Check()
		if len(slices.Collect(iter.Seq[*Call](tb.Calls))) != len(tb.symbols) {
			t.Fatal("Calls yields another number of rows than there are symbols")
		}
	})
}
