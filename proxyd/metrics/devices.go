// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// DeviceCounts are the counts of a device server since it began.
type DeviceCounts struct {
	Instructions, Switches, Interrupted, SwappedOut, SwappedIn, SwapSpared, Unshared uint64
	Once, Own, Spared, Compared, Taken                                               uint64 // as in server.SharingStatus
	SwitchTime                                                                       time.Duration

	Common, Saved, Private uint64 // bytes in use now
}

// deviceTotals adds up the counts of device servers. A server's counts end with the server, but the
// totals for Prometheus must not fall.
type deviceTotals struct {
	instructions, switches, interrupted, switchSeconds, swappedOut, swappedIn, swapSpared, unshared prometheus.Counter
	once, own, spared, compared, taken                                                              prometheus.Counter
	common, saved, private                                                                          prometheus.Gauge

	mu   sync.Mutex
	last map[string]DeviceCounts // by server
}

func (d *deviceTotals) registerCounters(r *prometheus.Registry) {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "device_" + name, Help: help})
		r.MustRegister(c)
		return c
	}
	d.instructions = counter("instructions_total", "Instructions that warps of this node's jobs have issued, on GPUs that count them.")
	d.switches = counter("switches_total", "Switches of GPUs between processes, or GPUs of jobs, that share them.")
	d.interrupted = counter("interruptions_total", "Of the switches, those in the middle of work.")
	d.switchSeconds = counter("switch_seconds_total", "Duration of the switches, with the time for swapping.")
	d.swappedOut = counter("swapped_out_bytes_total", "Bytes that were swapped out of GPUs into the host's memory for lack of room.")
	d.swappedIn = counter("swapped_in_bytes_total", "Bytes that were swapped in again.")
	d.swapSpared = counter("swap_spared_bytes_total", "Bytes that had to be swapped out or in, and were not moved, because equal bytes were there.")
	d.unshared = counter("unshared_bytes_total", "Memory that processes had in common, there once, until a process wrote there.")
	d.once = counter("once_total", "Kernels on shared GPUs that took the result of another process's kernel.")
	d.own = counter("own_total", "Kernels on shared GPUs that ran for their process.")
	d.spared = counter("spared_instructions_total", "Instructions that were not executed, because results were taken.")
	d.compared = counter("compared_bytes_total", "Memory that was read to find equal bytes of processes.")
	d.taken = counter("taken_bytes_total", "Results of kernels that were copied.")
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "device_" + name, Help: help})
		r.MustRegister(g)
		return g
	}
	d.common = gauge("common_bytes", "Memory of GPUs that is there once and belongs to several processes.")
	d.saved = gauge("saved_bytes", "Memory that would be taken in addition if equal bytes of processes were not shared.")
	d.private = gauge("private_bytes", "Memory that processes have for themselves, on GPUs that can have memory in common.")
}

// Devices takes the present counts of this node's device servers, each under a name of its own; nil
// for a server that did not answer. Counts of a server after its last answer are not in the totals.
func (m *Metrics) Devices(now map[string]*DeviceCounts) {
	d := &m.devices
	d.mu.Lock()
	defer d.mu.Unlock()
	last := map[string]DeviceCounts{}
	var there DeviceCounts
	for name, n := range now {
		was := d.last[name]
		if n == nil {
			last[name] = was
			continue
		}
		last[name] = *n
		if n.Switches < was.Switches || n.Instructions < was.Instructions {
			was = DeviceCounts{} // another server, under the same name
		}
		for _, c := range []struct {
			total    prometheus.Counter
			now, was uint64
		}{
			{d.instructions, n.Instructions, was.Instructions}, {d.switches, n.Switches, was.Switches},
			{d.interrupted, n.Interrupted, was.Interrupted}, {d.swappedOut, n.SwappedOut, was.SwappedOut}, {d.swappedIn, n.SwappedIn, was.SwappedIn},
			{d.swapSpared, n.SwapSpared, was.SwapSpared}, {d.unshared, n.Unshared, was.Unshared},
			{d.once, n.Once, was.Once}, {d.own, n.Own, was.Own}, {d.spared, n.Spared, was.Spared},
			{d.compared, n.Compared, was.Compared}, {d.taken, n.Taken, was.Taken},
		} {
			c.total.Add(float64(max(c.now, c.was) - c.was)) // Add panics at negative numbers
		}
		d.switchSeconds.Add(max(n.SwitchTime-was.SwitchTime, 0).Seconds())
	}
	for _, n := range last {
		there.Common, there.Saved, there.Private = there.Common+n.Common, there.Saved+n.Saved, there.Private+n.Private
	}
	d.common.Set(float64(there.Common))
	d.saved.Set(float64(there.Saved))
	d.private.Set(float64(there.Private))
	d.last = last
}
