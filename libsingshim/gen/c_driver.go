// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/api"
)

// driverCalls are the calls of the real driver that the cuda backend makes. Calls that some usable drivers lack are
// optional: without an optional call a feature is refused.
var driverCalls = []struct {
	symbol   string
	optional bool
}{
	{symbol: "cuInit"}, {symbol: "cuDriverGetVersion"}, {symbol: "cuGetExportTable", optional: true},
	{symbol: "cuDeviceGetCount"}, {symbol: "cuDeviceGet"}, {symbol: "cuDeviceGetName"}, {symbol: "cuDeviceGetUuid_v2", optional: true},
	{symbol: "cuDeviceGetUuid", optional: true}, {symbol: "cuDeviceTotalMem_v2"}, {symbol: "cuDeviceGetAttribute"}, {symbol: "cuDeviceCanAccessPeer"},
	{symbol: "cuDevicePrimaryCtxRetain"}, {symbol: "cuDevicePrimaryCtxRelease_v2"},
	{symbol: "cuCtxCreate_v2", optional: true}, {symbol: "cuCtxCreate_v4", optional: true}, {symbol: "cuCtxDestroy_v2"}, {symbol: "cuCtxSetCurrent"}, {symbol: "cuCtxGetLimit"}, {symbol: "cuCtxSetLimit"},
	{symbol: "cuMemAddressReserve"}, {symbol: "cuMemAddressFree"}, {symbol: "cuMemCreate"}, {symbol: "cuMemRelease"}, {symbol: "cuMemMap"},
	{symbol: "cuMemUnmap"}, {symbol: "cuMemSetAccess"}, {symbol: "cuMemGetAllocationGranularity"},
	{symbol: "cuMemHostRegister_v2"}, {symbol: "cuMemHostUnregister"}, {symbol: "cuMemHostAlloc"}, {symbol: "cuMemFreeHost"},
	{symbol: "cuStreamCreateWithPriority"}, {symbol: "cuStreamDestroy_v2"}, {symbol: "cuStreamQuery"}, {symbol: "cuStreamWaitEvent"},
	{symbol: "cuStreamWriteValue32_v2", optional: true}, {symbol: "cuStreamWriteValue64_v2", optional: true},
	{symbol: "cuEventCreate"}, {symbol: "cuEventDestroy_v2"}, {symbol: "cuEventRecord"}, {symbol: "cuEventQuery"},
	{symbol: "cuEventSynchronize"}, {symbol: "cuEventElapsedTime", optional: true}, {symbol: "cuEventElapsedTime_v2", optional: true},
	{symbol: "cuMemcpyDtoDAsync_v2"}, {symbol: "cuMemcpyHtoDAsync_v2"}, {symbol: "cuMemcpyDtoHAsync_v2"}, {symbol: "cuMemcpy3DAsync_v2"},
	{symbol: "cuMemsetD2D8Async"}, {symbol: "cuMemsetD2D16Async"}, {symbol: "cuMemsetD2D32Async"},
	{symbol: "cuMemsetD8Async"}, {symbol: "cuMemsetD16Async"}, {symbol: "cuMemsetD32Async"},
	{symbol: "cuModuleLoadDataEx"}, {symbol: "cuModuleUnload"}, {symbol: "cuModuleGetFunction"}, {symbol: "cuModuleGetGlobal_v2"},
	{symbol: "cuModuleEnumerateFunctions", optional: true}, {symbol: "cuFuncIsLoaded", optional: true},
	{symbol: "cuFuncGetAttribute"}, {symbol: "cuFuncSetAttribute"}, {symbol: "cuFuncGetParamInfo", optional: true},
	{symbol: "cuLaunchKernel"}, {symbol: "cuLaunchCooperativeKernel", optional: true}, {symbol: "cuLaunchKernelEx", optional: true},
	{symbol: "cuOccupancyMaxActiveClusters", optional: true}, {symbol: "cuOccupancyMaxPotentialClusterSize", optional: true},
	{symbol: "cuTensorMapEncodeTiled", optional: true}, {symbol: "cuTensorMapEncodeIm2col", optional: true},
	{symbol: "cuTensorMapEncodeIm2colWide", optional: true}, {symbol: "cuTensorMapReplaceAddress", optional: true},
	{symbol: "cuLinkCreate_v2", optional: true}, {symbol: "cuLinkAddData_v2", optional: true},
	{symbol: "cuLinkComplete", optional: true}, {symbol: "cuLinkDestroy", optional: true},
	{symbol: "cuGraphCreate", optional: true}, {symbol: "cuGraphDestroy", optional: true}, {symbol: "cuGraphAddKernelNode", optional: true}, {symbol: "cuGraphAddKernelNode_v2", optional: true},
	{symbol: "cuGraphKernelNodeSetAttribute", optional: true}, {symbol: "cuGraphAddMemcpyNode", optional: true}, {symbol: "cuGraphAddMemsetNode", optional: true}, {symbol: "cuGraphAddEmptyNode", optional: true},
	{symbol: "cuGraphInstantiateWithFlags", optional: true}, {symbol: "cuGraphLaunch", optional: true}, {symbol: "cuGraphExecDestroy", optional: true},
}

// cDriver is gen_driver.h: the calls as pointers that are found at run time, each behind a function that first
// makes the context of the call current.
func cDriver(t *api.Table) ([]byte, error) {
	var calls []*api.Call
	for _, d := range driverCalls {
		c := t.Call(d.symbol)
		if c == nil {
			return nil, fmt.Errorf("the table has no %s", d.symbol)
		}
		calls = append(calls, c)
	}
	w := newFile()
	w.line("")
	w.line("/* The functions of a driver, opened at run time, that the cuda backend calls. */")
	w.line("#ifndef CUDA_GEN_DRIVER_H")
	w.line("#define CUDA_GEN_DRIVER_H")
	w.line("")
	w.line("#include <stddef.h>")
	w.line("#include <stdint.h>")
	w.line("")
	w.line("typedef int CUresult;")
	w.line("typedef int CUdevice;")
	driverTypes(w, t, calls)
	w.line("")
	w.line("struct sing_driver {")
	for _, c := range calls {
		w.line("\t%s;", cPrototype(c, "(*"+c.Symbol+")"))
	}
	w.line("};")
	w.line("")
	w.line("/* name, whether the backend can do without */")
	w.line("#define SING_DRIVER_CALLS(X) \\")
	for i, d := range driverCalls {
		end := " \\"
		if i == len(driverCalls)-1 {
			end = ""
		}
		w.line("\tX(%s, %d)%s", d.symbol, intOf(d.optional), end)
	}
	w.line("")
	w.line("/* The result of a call that the driver does not have. */")
	w.line("#define SING_ABSENT (-1)")
	w.line("")
	w.line("/* Makes a context the thread's own, unless it is. NULL leaves all as it is. */")
	w.line("CUresult sing_enter(const struct sing_driver *d, CUcontext context);")
	for _, c := range calls {
		var names []string
		for _, a := range c.Args {
			names = append(names, a.Name)
		}
		w.line("")
		w.line("static inline CUresult sing_%s(%s)", c.Symbol, strings.Join(append([]string{"const struct sing_driver *d", "CUcontext in"}, cParameters(c)...), ", "))
		w.line("{")
		w.line("\tCUresult r = d->%s ? sing_enter(d, in) : SING_ABSENT;", c.Symbol)
		w.line("\treturn (r ? r : d->%s(%s));", c.Symbol, strings.Join(names, ", "))
		w.line("}")
	}
	w.line("")
	w.line("#endif")
	return w.Bytes(), nil
}

// driverTypes are the types of the calls' arguments, and of the members of these types.
func driverTypes(w *text, t *api.Table, calls []*api.Call) {
	used := map[*api.Type]bool{t.Type("context"): true}
	var add func(x *api.Type)
	add = func(x *api.Type) {
		used[x] = true
		for _, f := range x.Fields {
			add(f.Type)
		}
	}
	for _, c := range calls {
		for _, a := range c.Args {
			add(a.Type)
		}
	}
	seen := map[string]bool{"CUdevice": true}
	for _, x := range t.Types {
		if !used[x] || !x.Handle || seen[x.C] {
			continue
		}
		seen[x.C] = true
		if x.C == "CUdeviceptr" {
			w.line("typedef unsigned long long %s;", x.C)
			continue
		}
		cHandle(w, x)
	}
	for _, x := range t.Types {
		if used[x] && x.Struct {
			cStruct(w, x)
		}
	}
}

func intOf(b bool) int {
	if b {
		return 1
	}
	return 0
}
