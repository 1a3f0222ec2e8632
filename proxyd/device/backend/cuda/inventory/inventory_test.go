// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package inventory

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
)

// healthyDevice returns a device that reports all values. Tests change the values that they are
// about.
func healthyDevice() *mock.Device {
	return &mock.Device{
		GetNameFunc: func() (string, nvml.Return) { return "GPU", nvml.SUCCESS },
		GetUUIDFunc: func() (string, nvml.Return) { return "GPU-1", nvml.SUCCESS },
		GetPciInfoFunc: func() (nvml.PciInfo, nvml.Return) {
			return nvml.PciInfo{Domain: 1, Bus: 0x3b, Device: 2}, nvml.SUCCESS
		},
		GetMemoryInfoFunc:         func() (nvml.Memory, nvml.Return) { return nvml.Memory{Total: 100, Used: 7}, nvml.SUCCESS },
		GetTemperatureFunc:        func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 40, nvml.SUCCESS },
		GetPowerUsageFunc:         func() (uint32, nvml.Return) { return 70500, nvml.SUCCESS },
		GetEnforcedPowerLimitFunc: func() (uint32, nvml.Return) { return 700000, nvml.SUCCESS },
		GetClockInfoFunc:          func(nvml.ClockType) (uint32, nvml.Return) { return 1980, nvml.SUCCESS },
		GetUtilizationRatesFunc:   func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 12}, nvml.SUCCESS },
		GetComputeRunningProcessesFunc: func() ([]nvml.ProcessInfo, nvml.Return) {
			return []nvml.ProcessInfo{{Pid: 99, UsedGpuMemory: 5}}, nvml.SUCCESS
		},
		GetTotalEccErrorsFunc:               func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) { return 0, nvml.SUCCESS },
		GetRemappedRowsFunc:                 func() (int, int, bool, bool, nvml.Return) { return 0, 0, false, false, nvml.SUCCESS },
		GetCurrentClocksThrottleReasonsFunc: func() (uint64, nvml.Return) { return 0, nvml.SUCCESS },
	}
}

func newLibrary(devices ...nvml.Device) *mock.Interface {
	return &mock.Interface{
		InitFunc:                   func() nvml.Return { return nvml.SUCCESS },
		ShutdownFunc:               func() nvml.Return { return nvml.SUCCESS },
		SystemGetDriverVersionFunc: func() (string, nvml.Return) { return "550.1", nvml.SUCCESS },
		DeviceGetCountFunc:         func() (int, nvml.Return) { return len(devices), nvml.SUCCESS },
		DeviceGetHandleByIndexFunc: func(i int) (nvml.Device, nvml.Return) {
			if devices[i] == nil {
				return nil, nvml.ERROR_GPU_IS_LOST
			}
			return devices[i], nvml.SUCCESS
		},
		ExtensionsFunc: func() nvml.ExtendedInterface {
			return &mock.ExtendedInterface{LookupSymbolFunc: func(string) error { return nil }}
		},
	}
}

func TestRead(t *testing.T) {
	silent := healthyDevice() // as small devices are
	silent.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
	silent.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.ERROR_NO_PERMISSION }
	sick := healthyDevice()
	sick.GetTotalEccErrorsFunc = func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) { return 3, nvml.SUCCESS }
	sick.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 1, 1, true, true, nvml.SUCCESS }
	sick.GetCurrentClocksThrottleReasonsFunc = func() (uint64, nvml.Return) {
		return nvml.ClocksThrottleReasonHwThermalSlowdown, nvml.SUCCESS
	}
	n, err := readNode(newLibrary(healthyDevice(), silent, sick, nil))
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(n, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	checkGolden(t, got)
}

// TestReadOldLibrary: a call that the library lacks is not made.
func TestReadOldLibrary(t *testing.T) {
	device := healthyDevice()
	device.GetRemappedRowsFunc = nil // panics when called
	old := newLibrary(device)
	old.ExtensionsFunc = func() nvml.ExtendedInterface {
		return &mock.ExtendedInterface{LookupSymbolFunc: func(string) error { return errors.New("undefined symbol") }}
	}
	n, err := readNode(old)
	if err != nil || len(n.Devices) != 1 || len(n.Devices[0].Faults) != 0 {
		t.Errorf("readNode = %+v, %v; want one device without faults", n, err)
	}
}

func TestReadRefused(t *testing.T) {
	none := newLibrary()
	none.InitFunc = func() nvml.Return { return nvml.ERROR_LIBRARY_NOT_FOUND }
	if _, err := readNode(none); !errors.Is(err, ErrNone) {
		t.Errorf("without a library: %v", err)
	}
	odd := newLibrary()
	odd.SystemGetDriverVersionFunc = func() (string, nvml.Return) { return "", nvml.ERROR_UNKNOWN }
	if _, err := readNode(odd); !errors.Is(err, nvml.ERROR_UNKNOWN) || errors.Is(err, ErrNone) {
		t.Errorf("a library that fails: %v", err)
	}
	if len(odd.ShutdownCalls()) != 1 {
		t.Error("the library was not shut down after its failure")
	}
}
