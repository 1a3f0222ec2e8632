// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"encoding/hex"
	"fmt"
	"math"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/handles"
)

// Calls implements dispatch.NvmlCalls. All of the job's devices are shown, whichever the program sees.
type Calls struct {
	*driver.Process
	attached func() []*driver.Process // the job's processes, in no order
}

// Facts that NVML tells of the driver. Devices are as the program sees them: the devices of its job, with the memory
// that the program may use.
const (
	driverName  = "580.00"
	nvmlVersion = "13.580.00"
)

// New makes the calls of a process. attached lists the processes that are attached.
func New(p *driver.Process, attached func() []*driver.Process) *Calls { return &Calls{p, attached} }

// nvmlDevice finds the device of a handle.
func (p *Calls) nvmlDevice(h dispatch.Nvmldevice) (int32, *backend.Info, dispatch.Result) {
	n := uint64(h) - handles.NVMLClass.Handle(1)
	if n >= uint64(len(p.JobDevices)) {
		return 0, nil, dispatch.ResultNvmlInvalidArgument
	}
	return int32(n), p.JobDevices[n].Info(), 0
}

// nvmlHandle is the handle of a device, which must be there.
func nvmlHandle(dev int32) dispatch.Nvmldevice {
	return dispatch.Nvmldevice(handles.NVMLClass.Handle(uint64(dev) + 1))
}

// nvmlAttribute is an attribute of a device.
func (p *Calls) nvmlAttribute(h dispatch.Nvmldevice, a backend.Attribute) (uint32, dispatch.Result) {
	_, info, r := p.nvmlDevice(h)
	if r != 0 {
		return 0, r
	}
	return uint32(info.Attributes[a]), 0
}

// checkRoom returns INSUFFICIENT_SIZE for a text that does not fit into its buffer with its NUL.
func checkRoom(text string, room uint32) (string, dispatch.Result) {
	if uint64(len(text)) >= uint64(room) {
		return "", dispatch.ResultNvmlInsufficientSize
	}
	return text, 0
}

// UUIDText is a UUID in NVML's form.
func UUIDText(u [16]byte) string {
	t := hex.EncodeToString(u[:])
	return fmt.Sprintf("GPU-%s-%s-%s-%s-%s", t[:8], t[8:12], t[12:16], t[16:20], t[20:])
}

// NvmlInitV2 implements dispatch.Backend, as all below. Initialising needs no work.
func (p *Calls) NvmlInitV2(*dispatch.Call) dispatch.Result                { return 0 }
func (p *Calls) NvmlInitWithFlags(*dispatch.Call, uint32) dispatch.Result { return 0 }
func (p *Calls) NvmlShutdown(*dispatch.Call) dispatch.Result              { return 0 }

func (p *Calls) NvmlSystemGetDriverVersion(_ *dispatch.Call, n uint32) (string, dispatch.Result) {
	return checkRoom(driverName, n)
}

func (p *Calls) NvmlSystemGetNVMLVersion(_ *dispatch.Call, n uint32) (string, dispatch.Result) {
	return checkRoom(nvmlVersion, n)
}

func (p *Calls) NvmlSystemGetCudaDriverVersion(*dispatch.Call) (int32, dispatch.Result) {
	return driver.DriverVersion, 0
}

func (p *Calls) NvmlSystemGetCudaDriverVersionV2(*dispatch.Call) (int32, dispatch.Result) {
	return driver.DriverVersion, 0
}

func (p *Calls) NvmlDeviceGetCountV2(*dispatch.Call) (uint32, dispatch.Result) {
	return uint32(len(p.JobDevices)), 0
}

func (p *Calls) NvmlDeviceGetHandleByIndexV2(_ *dispatch.Call, index uint32) (dispatch.Nvmldevice, dispatch.Result) {
	if uint64(index) >= uint64(len(p.JobDevices)) {
		return 0, dispatch.ResultNvmlInvalidArgument
	}
	return nvmlHandle(int32(index)), 0
}

func (p *Calls) NvmlDeviceGetHandleByPciBusIdV2(_ *dispatch.Call, id string) (dispatch.Nvmldevice, dispatch.Result) {
	if _, ok := driver.ParseBusID(id); !ok {
		return 0, dispatch.ResultNvmlInvalidArgument
	}
	dev := driver.DeviceAt(p.JobDevices, id)
	if dev < 0 {
		return 0, dispatch.ResultNvmlNotFound
	}
	return nvmlHandle(int32(dev)), 0
}

func (p *Calls) NvmlDeviceGetHandleByUUID(_ *dispatch.Call, id string) (dispatch.Nvmldevice, dispatch.Result) {
	for i, d := range p.JobDevices {
		if strings.EqualFold(UUIDText(d.Info().UUID), id) {
			return nvmlHandle(int32(i)), 0
		}
	}
	return 0, dispatch.ResultNvmlNotFound
}

func (p *Calls) NvmlDeviceGetIndex(_ *dispatch.Call, dev dispatch.Nvmldevice) (uint32, dispatch.Result) {
	i, _, r := p.nvmlDevice(dev)
	return uint32(i), r
}

func (p *Calls) NvmlDeviceGetMinorNumber(c *dispatch.Call, dev dispatch.Nvmldevice) (uint32, dispatch.Result) {
	return p.NvmlDeviceGetIndex(c, dev)
}

func (p *Calls) NvmlDeviceGetName(_ *dispatch.Call, dev dispatch.Nvmldevice, n uint32) (string, dispatch.Result) {
	_, info, r := p.nvmlDevice(dev)
	if r != 0 {
		return "", r
	}
	return checkRoom(info.Name, n)
}

func (p *Calls) NvmlDeviceGetUUID(_ *dispatch.Call, dev dispatch.Nvmldevice, n uint32) (string, dispatch.Result) {
	_, info, r := p.nvmlDevice(dev)
	if r != 0 {
		return "", r
	}
	return checkRoom(UUIDText(info.UUID), n)
}

func (p *Calls) NvmlDeviceGetCudaComputeCapability(_ *dispatch.Call, dev dispatch.Nvmldevice) (major, minor int32, r dispatch.Result) {
	_, info, r := p.nvmlDevice(dev)
	if r != 0 {
		return 0, 0, r
	}
	return info.Attributes[backend.ComputeMajor], info.Attributes[backend.ComputeMinor], 0
}

// architectures are NVML's numbers of them, by compute capability.
var architectures = map[[2]int32]uint32{{7, 0}: 5, {7, 5}: 6, {8, 0}: 7, {8, 6}: 7, {8, 9}: 8, {9, 0}: 9, {10, 0}: 10}

func (p *Calls) NvmlDeviceGetArchitecture(_ *dispatch.Call, dev dispatch.Nvmldevice) (uint32, dispatch.Result) {
	_, info, r := p.nvmlDevice(dev)
	if r != 0 {
		return 0, r
	}
	if a, ok := architectures[[2]int32{info.Attributes[backend.ComputeMajor], info.Attributes[backend.ComputeMinor]}]; ok {
		return a, 0
	}
	return math.MaxUint32, 0 // unknown
}

func (p *Calls) NvmlDeviceGetMemoryBusWidth(_ *dispatch.Call, dev dispatch.Nvmldevice) (uint32, dispatch.Result) {
	return p.nvmlAttribute(dev, backend.MemoryBusWidth)
}

func (p *Calls) NvmlDeviceGetPciInfoV3(_ *dispatch.Call, dev dispatch.Nvmldevice) (dispatch.Nvmlpci, dispatch.Result) {
	_, info, r := p.nvmlDevice(dev)
	if r != 0 {
		return dispatch.Nvmlpci{}, r
	}
	at := info.PCI
	v := dispatch.Nvmlpci{Domain: at.Domain, Bus: at.Bus, Device: at.Device}
	copy(v.BusIdLegacy[:15], driver.BusID(at))
	copy(v.BusId[:31], fmt.Sprintf("%08X:%02X:%02X.0", at.Domain, at.Bus, at.Device))
	return v, 0
}

func (p *Calls) NvmlDeviceGetMemoryInfo(_ *dispatch.Call, dev dispatch.Nvmldevice) (dispatch.Nvmlmemory, dispatch.Result) {
	i, info, r := p.nvmlDevice(dev)
	if r != 0 {
		return dispatch.Nvmlmemory{}, r
	}
	used := p.UsedBytes(i)
	return dispatch.Nvmlmemory{Total: info.Memory, Free: info.Memory - used, Used: used}, 0
}

func (p *Calls) NvmlDeviceGetMemoryInfoV2(c *dispatch.Call, dev dispatch.Nvmldevice, memory dispatch.Nvmlmemory2) (dispatch.Nvmlmemory2, dispatch.Result) {
	const version = 40 | 2<<24 // the size of the struct and its number
	if memory.Version != version {
		return memory, dispatch.ResultNvmlArgumentVersionMismatch
	}
	m, r := p.NvmlDeviceGetMemoryInfo(c, dev)
	return dispatch.Nvmlmemory2{Version: version, Total: m.Total, Free: m.Free, Used: m.Used}, r
}

// NvmlDeviceGetUtilizationRates says that devices are in use exactly while memory of them is.
func (p *Calls) NvmlDeviceGetUtilizationRates(_ *dispatch.Call, dev dispatch.Nvmldevice) (dispatch.Nvmlutil, dispatch.Result) {
	i, info, r := p.nvmlDevice(dev)
	if r != 0 {
		return dispatch.Nvmlutil{}, r
	}
	return dispatch.Nvmlutil{Memory: uint32(p.UsedBytes(i) * 100 / info.Memory)}, 0
}

// nvmlClock is the clock of the processors or of the memory.
func (p *Calls) nvmlClock(dev dispatch.Nvmldevice, clock int32) (uint32, dispatch.Result) {
	const memory, video = 2, 3
	if clock < 0 || clock > video {
		return 0, dispatch.ResultNvmlInvalidArgument
	}
	a := backend.ClockRate
	if clock == memory {
		a = backend.MemoryClockRate
	}
	khz, r := p.nvmlAttribute(dev, a)
	return khz / 1000, r
}

func (p *Calls) NvmlDeviceGetClockInfo(_ *dispatch.Call, dev dispatch.Nvmldevice, clock int32) (uint32, dispatch.Result) {
	return p.nvmlClock(dev, clock)
}

func (p *Calls) NvmlDeviceGetMaxClockInfo(_ *dispatch.Call, dev dispatch.Nvmldevice, clock int32) (uint32, dispatch.Result) {
	return p.nvmlClock(dev, clock)
}

func (p *Calls) NvmlDeviceGetApplicationsClock(_ *dispatch.Call, dev dispatch.Nvmldevice, clock int32) (uint32, dispatch.Result) {
	return p.nvmlClock(dev, clock)
}

func (p *Calls) NvmlDeviceGetComputeMode(_ *dispatch.Call, dev dispatch.Nvmldevice) (int32, dispatch.Result) {
	v, r := p.nvmlAttribute(dev, backend.ComputeMode)
	return int32(v), r
}

// nvmlZero answers calls about features that are off and counters that are not kept.
func (p *Calls) nvmlZero(dev dispatch.Nvmldevice) dispatch.Result {
	_, _, r := p.nvmlDevice(dev)
	return r
}

func (p *Calls) NvmlDeviceGetPersistenceMode(_ *dispatch.Call, dev dispatch.Nvmldevice) (int32, dispatch.Result) {
	return 1, p.nvmlZero(dev)
}

func (p *Calls) NvmlDeviceGetDisplayMode(_ *dispatch.Call, dev dispatch.Nvmldevice) (int32, dispatch.Result) {
	return 0, p.nvmlZero(dev)
}

func (p *Calls) NvmlDeviceGetDisplayActive(_ *dispatch.Call, dev dispatch.Nvmldevice) (int32, dispatch.Result) {
	return 0, p.nvmlZero(dev)
}

func (p *Calls) NvmlDeviceGetPerformanceState(_ *dispatch.Call, dev dispatch.Nvmldevice) (int32, dispatch.Result) {
	return 0, p.nvmlZero(dev)
}

func (p *Calls) NvmlDeviceGetMultiGpuBoard(_ *dispatch.Call, dev dispatch.Nvmldevice) (uint32, dispatch.Result) {
	return 0, p.nvmlZero(dev)
}

func (p *Calls) NvmlDeviceGetCurrentClocksThrottleReasons(_ *dispatch.Call, dev dispatch.Nvmldevice) (uint64, dispatch.Result) {
	return 0, p.nvmlZero(dev)
}

func (p *Calls) NvmlDeviceGetCurrentClocksEventReasons(_ *dispatch.Call, dev dispatch.Nvmldevice) (uint64, dispatch.Result) {
	return 0, p.nvmlZero(dev)
}

func (p *Calls) NvmlDeviceIsMigDeviceHandle(_ *dispatch.Call, dev dispatch.Nvmldevice) (uint32, dispatch.Result) {
	return 0, p.nvmlZero(dev)
}

func (p *Calls) NvmlDeviceGetMaxMigDeviceCount(_ *dispatch.Call, dev dispatch.Nvmldevice) (uint32, dispatch.Result) {
	return 0, p.nvmlZero(dev)
}

func (p *Calls) NvmlDeviceGetTopologyCommonAncestor(_ *dispatch.Call, one, other dispatch.Nvmldevice) (int32, dispatch.Result) {
	const internal, node = 0, 40
	a, _, r := p.nvmlDevice(one)
	if r != 0 {
		return 0, r
	}
	b, _, r := p.nvmlDevice(other)
	if a == b {
		return internal, r
	}
	return node, r
}

func (p *Calls) NvmlDeviceGetP2PStatus(_ *dispatch.Call, one, other dispatch.Nvmldevice, _ int32) (int32, dispatch.Result) {
	const ok = 0
	if r := p.nvmlZero(one); r != 0 {
		return 0, r
	}
	return ok, p.nvmlZero(other)
}

// NvmlDeviceGetComputeRunningProcessesV3 lists the processes of the job that use the device, by their numbers in the
// server's PID namespace.
func (p *Calls) NvmlDeviceGetComputeRunningProcessesV3(_ *dispatch.Call, dev dispatch.Nvmldevice, n uint32, wantList bool) (uint32, []dispatch.Nvmlprocess, dispatch.Result) {
	i, _, r := p.nvmlDevice(dev)
	if r != 0 {
		return 0, nil, r
	}
	var list []dispatch.Nvmlprocess
	for _, q := range p.attached() {
		if q.Uses(i) {
			list = append(list, dispatch.Nvmlprocess{
				Pid: uint32(q.PID()), UsedGpuMemory: q.UsedBytes(i), GpuInstanceId: math.MaxUint32, ComputeInstanceId: math.MaxUint32,
			})
		}
	}
	count := uint32(len(list))
	if count > n || !wantList {
		if count == 0 {
			return 0, nil, 0
		}
		return count, nil, dispatch.ResultNvmlInsufficientSize
	}
	return count, list, 0
}

func (p *Calls) NvmlDeviceGetGraphicsRunningProcessesV3(_ *dispatch.Call, dev dispatch.Nvmldevice, _ uint32, _ bool) (uint32, []dispatch.Nvmlprocess, dispatch.Result) {
	return 0, nil, p.nvmlZero(dev)
}
