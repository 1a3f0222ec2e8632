// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
)

// MemsetD8V2 implements dispatch.Backend, as all below.
func (p *CopyCalls) MemsetD8V2(c *dispatch.Call, dst dispatch.Devptr, value uint8, n uint64) dispatch.Result {
	return p.MemsetD8Async(c, dst, value, n, driver.DefaultStream)
}

func (p *CopyCalls) MemsetD8Async(c *dispatch.Call, dst dispatch.Devptr, value uint8, n uint64, stream dispatch.Stream) dispatch.Result {
	return p.Fill(c, stream, backend.Fill{Addr: backend.Addr(dst), Value: uint32(value), Element: 1, Width: n})
}

func (p *CopyCalls) MemsetD16V2(c *dispatch.Call, dst dispatch.Devptr, value uint16, n uint64) dispatch.Result {
	return p.MemsetD16Async(c, dst, value, n, driver.DefaultStream)
}

func (p *CopyCalls) MemsetD16Async(c *dispatch.Call, dst dispatch.Devptr, value uint16, n uint64, stream dispatch.Stream) dispatch.Result {
	return p.Fill(c, stream, backend.Fill{Addr: backend.Addr(dst), Value: uint32(value), Element: 2, Width: n})
}

func (p *CopyCalls) MemsetD32V2(c *dispatch.Call, dst dispatch.Devptr, value uint32, n uint64) dispatch.Result {
	return p.MemsetD32Async(c, dst, value, n, driver.DefaultStream)
}

func (p *CopyCalls) MemsetD32Async(c *dispatch.Call, dst dispatch.Devptr, value uint32, n uint64, stream dispatch.Stream) dispatch.Result {
	return p.Fill(c, stream, backend.Fill{Addr: backend.Addr(dst), Value: value, Element: 4, Width: n})
}

// fill2D sets the bytes of several rows.
func (p *CopyCalls) fill2D(c *dispatch.Call, stream dispatch.Stream, dst dispatch.Devptr, pitch uint64, value, element uint32, width, height uint64) dispatch.Result {
	if height == 0 {
		width = 0
	}
	return p.Fill(c, stream, backend.Fill{Addr: backend.Addr(dst), Pitch: pitch, Value: value, Element: element, Width: width, Height: height})
}

func (p *CopyCalls) MemsetD2D8V2(c *dispatch.Call, dst dispatch.Devptr, pitch uint64, value uint8, width, height uint64) dispatch.Result {
	return p.fill2D(c, driver.DefaultStream, dst, pitch, uint32(value), 1, width, height)
}

func (p *CopyCalls) MemsetD2D8Async(c *dispatch.Call, dst dispatch.Devptr, pitch uint64, value uint8, width, height uint64, stream dispatch.Stream) dispatch.Result {
	return p.fill2D(c, stream, dst, pitch, uint32(value), 1, width, height)
}

func (p *CopyCalls) MemsetD2D16V2(c *dispatch.Call, dst dispatch.Devptr, pitch uint64, value uint16, width, height uint64) dispatch.Result {
	return p.fill2D(c, driver.DefaultStream, dst, pitch, uint32(value), 2, width, height)
}

func (p *CopyCalls) MemsetD2D16Async(c *dispatch.Call, dst dispatch.Devptr, pitch uint64, value uint16, width, height uint64, stream dispatch.Stream) dispatch.Result {
	return p.fill2D(c, stream, dst, pitch, uint32(value), 2, width, height)
}

func (p *CopyCalls) MemsetD2D32V2(c *dispatch.Call, dst dispatch.Devptr, pitch uint64, value uint32, width, height uint64) dispatch.Result {
	return p.fill2D(c, driver.DefaultStream, dst, pitch, value, 4, width, height)
}

func (p *CopyCalls) MemsetD2D32Async(c *dispatch.Call, dst dispatch.Devptr, pitch uint64, value uint32, width, height uint64, stream dispatch.Stream) dispatch.Result {
	return p.fill2D(c, stream, dst, pitch, value, 4, width, height)
}
