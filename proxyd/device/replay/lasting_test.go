// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package replay

import "testing"

// TestLasting: which calls have an effect that a restore needs to repeat, and which do not.
func TestLasting(t *testing.T) {
	want := map[string]bool{
		"cuStreamCreate": true, "cuStreamDestroy_v2": true, "cuCtxCreate_v2": true, "module_load": true, "cuCtxSetLimit": true,
		"cuFuncSetAttribute": true, "cuModuleGetFunction": true, "cuEventCreate": true, "cuGraphCreate": true,
		"cuMemAlloc_v2": false, "cuMemFree_v2": false, "copy_in": false, "copy_out": false, "cuMemcpyHtoDAsync_v2": false,
		"cuEventRecord": false, "cuStreamWaitEvent": false, "cuStreamSynchronize": false, "cuMemsetD8Async": false,
	}
	for op, rule := range rules {
		if w, ok := want[rule.Symbol]; ok && Lasting(op) != w {
			t.Errorf("%s: Lasting is %v, want %v", rule.Symbol, !w, w)
		}
		delete(want, rule.Symbol)
		if rule.isLasting() != Lasting(op|1<<31) {
			t.Errorf("%s: Lasting is different with the bit for per-thread default streams", rule.Symbol)
		}
	}
	for symbol := range want {
		t.Errorf("%s: no such call", symbol)
	}
}

// TestReplacedByDevice: a setting of a device does not replace the setting of another device.
func TestReplacedByDevice(t *testing.T) {
	op, ok := Find("cuDevicePrimaryCtxSetFlags_v2")
	if !ok {
		t.Fatal("no such call")
	}
	g := New()
	set := func(dev, flags byte) {
		if err := g.Add(Call{Op: op, In: []byte{dev, 0, 0, 0, flags, 0, 0, 0}}); err != nil {
			t.Fatal(err)
		}
	}
	set(0, 1)
	set(1, 2)
	set(0, 4)
	calls := g.Calls()
	if len(calls) != 2 || calls[0].In[0] != 1 || calls[1].In[0] != 0 || calls[1].In[4] != 4 {
		t.Errorf("after two settings of device 0 and one of device 1, calls = %+v", calls)
	}
}

// TestAskedForAgain: a changed object keeps its changes when a call returns its handle again.
func TestAskedForAgain(t *testing.T) {
	op := func(symbol string) uint32 {
		op, ok := Find(symbol)
		if !ok {
			t.Fatalf("the table has no call %v", symbol)
		}
		return op
	}
	word := func(n byte) []byte { return []byte{n, 0, 0, 0, 0, 0, 1, 0} }
	g := New()
	get := Call{Op: op("cuModuleGetFunction"), In: append(word(7), 1, 0, 0, 0, 0, 0, 0, 0, 'f'), Out: word(9)}
	set := Call{Op: op("cuFuncSetAttribute"), In: append(word(9), 8, 0, 0, 0, 1, 0, 0, 0)}
	for _, c := range []Call{get, set, get} {
		if err := g.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	calls := g.Calls()
	if len(calls) != 2 || calls[0].Op != get.Op || calls[1].Op != set.Op {
		t.Errorf("calls = %+v, want the first that returned the handle, and the change", calls)
	}
}
