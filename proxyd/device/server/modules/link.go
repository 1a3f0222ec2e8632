// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"errors"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/image"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
)

// linker makes a single image of several images.
type linker struct {
	context *driver.Context
	cfg     backend.LoadConfig

	mu    sync.Mutex
	parts [][]byte
	bytes int
	done  []byte // the result
}

// Kinds of linker inputs, in the driver's numbers: up to these, the input is code for a device.
const (
	inputCubin = iota
	inputPTX
	inputFatbin
	inputObject
	inputLibrary
	inputNVVM
)

// LinkCreate implements dispatch.Backend, as all below.
func (p *Calls) LinkCreate(c *dispatch.Call, names []int32, values []uint64, _ uint32) (dispatch.Linkstate, dispatch.Result) {
	x, r := p.Current(c)
	if r != 0 {
		return 0, r
	}
	return p.linkers.Make(&linker{context: x, cfg: loadConfig(names, values)})
}

// LinkAdd keeps a part. A part that is no code for this device is refused now; errors in its text show when all parts
// are there.
func (p *Calls) LinkAdd(_ *dispatch.Call, h dispatch.Linkstate, kind int32, data []uint8, _ uint64, name string, _ []int32, _ []uint64, _, _, _ uint32) (
	info, problems string, r dispatch.Result,
) {
	l, ok := p.linkers.Get(h)
	if !ok {
		return "", "", dispatch.ResultInvalidHandle
	}
	switch kind {
	case inputCubin, inputPTX, inputFatbin:
	case inputObject, inputLibrary, inputNVVM:
		return "", "error   : " + name + ": only PTX and fatbins with PTX are linked\n", dispatch.ResultNotSupported
	default:
		return "", "", dispatch.ResultInvalidValue
	}
	at := &l.context.Space.Device.Info().Attributes
	if _, err := image.Choose(data, uint32(at[backend.ComputeMajor]*10+at[backend.ComputeMinor])); err != nil {
		return "", "error   : " + name + ": " + err.Error() + "\n", imageResult(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.done != nil:
		return "", "", dispatch.ResultInvalidValue
	case l.bytes+len(data) > image.MaxSize:
		return "", "", dispatch.ResultOutOfMemory
	}
	l.bytes += len(data)
	l.parts = append(l.parts, data)
	return "", "", 0
}

// imageResult is the driver's number for an error of an image.
func imageResult(err error) dispatch.Result {
	if errors.Is(err, image.ErrNoPTX) {
		return dispatch.ResultNoBinaryForGpu
	}
	return dispatch.ResultInvalidImage
}

// LinkComplete links the first time; later calls return the same image.
func (p *Calls) LinkComplete(_ *dispatch.Call, h dispatch.Linkstate, room uint64, _, _ uint32) (
	out []uint8, n uint64, info, problems string, milliseconds float32, r dispatch.Result,
) {
	begin := time.Now()
	l, ok := p.linkers.Get(h)
	if !ok {
		return nil, 0, "", "", 0, dispatch.ResultInvalidHandle
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var log backend.Log
	if l.done == nil {
		if len(l.parts) == 0 {
			return nil, 0, "", "error   : nothing was added\n", millisecondsSince(begin), dispatch.ResultInvalidValue
		}
		var err error
		l.done, log, err = l.context.Backend.Link(l.parts, l.cfg)
		if err != nil {
			l.done = nil
			return nil, 0, log.Info, log.Error, millisecondsSince(begin), p.Result(err)
		}
		l.parts = nil
	}
	if uint64(len(l.done)) <= room {
		out = l.done
	}
	return out, uint64(len(l.done)), log.Info, log.Error, millisecondsSince(begin), 0
}

func (p *Calls) LinkDestroy(_ *dispatch.Call, h dispatch.Linkstate) dispatch.Result {
	if _, ok := p.linkers.Drop(h); !ok {
		return dispatch.ResultInvalidHandle
	}
	return 0
}
