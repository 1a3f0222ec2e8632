// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

// Package inventory says which real devices a machine has, and their state, by the vendor's management library
// (libnvidia-ml.so.1), which is opened at run time. The package only reads, and makes no context on a device.
package inventory

import (
	"errors"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Node is a machine's devices.
type Node struct {
	Driver  string   `json:"driver"`
	Devices []Device `json:"devices"`
}

// Device is a device. Values that a device does not report are nil: not all devices measure all values.
type Device struct {
	Index     int       `json:"index"`
	Name      string    `json:"name"`
	UUID      string    `json:"uuid"`
	BusID     string    `json:"busId"`
	Memory    uint64    `json:"memory"` // bytes
	Used      uint64    `json:"used"`
	Celsius   *uint32   `json:"celsius,omitempty"`
	Watts     *float64  `json:"watts,omitempty"`
	WattLimit *float64  `json:"wattLimit,omitempty"`
	Clock     *uint32   `json:"clock,omitempty"` // of the multiprocessors, MHz
	Busy      *uint32   `json:"busy,omitempty"`  // percent
	Processes []Process `json:"processes"`
	// Faults are reasons not to give work to the device.
	Faults []string `json:"faults"`
}

// Process is a process that uses a device.
type Process struct {
	PID    uint32 `json:"pid"`
	Memory uint64 `json:"memory"`
}

// ErrNone says that there is no management library, or no driver below.
var ErrNone = errors.New("no NVIDIA driver")

// Read asks the library.
func Read() (*Node, error) { return readNode(nvml.New()) }

// callError is a call's result as an error.
func callError(call string, r nvml.Return) error {
	if r == nvml.SUCCESS {
		return nil
	}
	return fmt.Errorf("%s: %w", call, r)
}

func readNode(lib nvml.Interface) (n *Node, err error) {
	switch r := lib.Init(); r {
	case nvml.SUCCESS:
	case nvml.ERROR_LIBRARY_NOT_FOUND, nvml.ERROR_DRIVER_NOT_LOADED:
		return nil, fmt.Errorf("%w: %w", ErrNone, r)
	default:
		return nil, callError("nvmlInit", r)
	}
	defer func() { err = errors.Join(err, callError("nvmlShutdown", lib.Shutdown())) }()
	n = &Node{}
	var r nvml.Return
	if n.Driver, r = lib.SystemGetDriverVersion(); r != nvml.SUCCESS {
		return nil, callError("nvmlSystemGetDriverVersion", r)
	}
	count, r := lib.DeviceGetCount()
	if r != nvml.SUCCESS {
		return nil, callError("nvmlDeviceGetCount", r)
	}
	// A call that a library lacks would end the process.
	hasRows := lib.Extensions().LookupSymbol("nvmlDeviceGetRemappedRows") == nil
	for i := range count {
		h, r := lib.DeviceGetHandleByIndex(i)
		if r != nvml.SUCCESS {
			// A device that has fallen off its bus must not hide the other devices.
			n.Devices = append(n.Devices, Device{Index: i, Faults: []string{"it does not answer: " + r.Error()}})
			continue
		}
		d, err := readDevice(i, h, hasRows)
		if err != nil {
			return nil, fmt.Errorf("device %d: %w", i, err)
		}
		n.Devices = append(n.Devices, *d)
	}
	return n, nil
}

// readDevice reads a device's state: with hasRows, the state of its memory's rows, too.
func readDevice(i int, h nvml.Device, hasRows bool) (*Device, error) {
	d := &Device{Index: i, Processes: []Process{}, Faults: []string{}}
	var r nvml.Return
	if d.Name, r = h.GetName(); r != nvml.SUCCESS {
		return nil, callError("nvmlDeviceGetName", r)
	}
	if d.UUID, r = h.GetUUID(); r != nvml.SUCCESS {
		return nil, callError("nvmlDeviceGetUUID", r)
	}
	pci, r := h.GetPciInfo()
	if r != nvml.SUCCESS {
		return nil, callError("nvmlDeviceGetPciInfo", r)
	}
	d.BusID = fmt.Sprintf("%08x:%02x:%02x.0", pci.Domain, pci.Bus, pci.Device)
	m, r := h.GetMemoryInfo()
	if r != nvml.SUCCESS {
		return nil, callError("nvmlDeviceGetMemoryInfo", r)
	}
	d.Memory, d.Used = m.Total, m.Used
	if v, r := h.GetTemperature(nvml.TEMPERATURE_GPU); r == nvml.SUCCESS {
		d.Celsius = &v
	}
	if v, r := h.GetPowerUsage(); r == nvml.SUCCESS {
		d.Watts = inWatts(v)
	}
	if v, r := h.GetEnforcedPowerLimit(); r == nvml.SUCCESS {
		d.WattLimit = inWatts(v)
	}
	if v, r := h.GetClockInfo(nvml.CLOCK_SM); r == nvml.SUCCESS {
		d.Clock = &v
	}
	if v, r := h.GetUtilizationRates(); r == nvml.SUCCESS {
		d.Busy = &v.Gpu
	}
	list, r := h.GetComputeRunningProcesses()
	if r == nvml.SUCCESS {
		for _, p := range list {
			d.Processes = append(d.Processes, Process{p.Pid, p.UsedGpuMemory})
		}
	}
	d.Faults = append(d.Faults, listFaults(h, hasRows)...)
	return d, nil
}

// inWatts is a power in milliwatts.
func inWatts(mw uint32) *float64 {
	w := float64(mw) / 1000
	return &w
}

// listFaults returns the faults of a device's memory and cooling.
func listFaults(h nvml.Device, hasRows bool) []string {
	var out []string
	if n, r := h.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC); r == nvml.SUCCESS && n > 0 {
		out = append(out, fmt.Sprintf("%d memory errors that could not be corrected since the driver was loaded", n))
	}
	if hasRows {
		if _, _, pending, failed, r := h.GetRemappedRows(); r == nvml.SUCCESS && failed {
			out = append(out, "a row of memory could not be replaced")
		} else if r == nvml.SUCCESS && pending {
			out = append(out, "a row of memory is to be replaced at the next reset")
		}
	}
	const hardware = nvml.ClocksThrottleReasonHwThermalSlowdown | nvml.ClocksThrottleReasonHwPowerBrakeSlowdown
	if why, r := h.GetCurrentClocksThrottleReasons(); r == nvml.SUCCESS && why&hardware != 0 {
		out = append(out, "the hardware has slowed down: too hot, or too little power")
	}
	return out
}
