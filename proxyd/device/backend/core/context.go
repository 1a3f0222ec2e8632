// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"fmt"
	"sync/atomic"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// ErrClosed is the error of calls on a space that is closed.
var ErrClosed = fmt.Errorf("space is closed: %w", backend.ContextIsDestroyed)

// ContextState says whether a context can be used: the context may have a fault, or be destroyed. A backend embeds
// ContextState in its own type, calls Init, and has ID and Err of backend.Context with that. The methods can be called
// concurrently, and with any lock held.
type ContextState struct {
	id    backend.ContextID
	fault atomic.Pointer[error]
	gone  atomic.Bool
}

// Init is called once, before any other method.
func (c *ContextState) Init(id backend.ContextID) { c.id = id }

// ID implements backend.Context.
func (c *ContextState) ID() backend.ContextID { return c.id }

// Err implements backend.Context.
func (c *ContextState) Err() error {
	if p := c.fault.Load(); p != nil {
		return *p
	}
	return nil
}

// CheckUsable returns the context's fault, or an error if the context was destroyed. Each call on the context begins
// with CheckUsable.
func (c *ContextState) CheckUsable() error {
	if err := c.Err(); err != nil {
		return err
	}
	if c.gone.Load() {
		return c.destroyedError()
	}
	return nil
}

// SetFault gives the context its fault; the first fault stays.
func (c *ContextState) SetFault(err error) {
	if r := backend.ResultOf(err); !r.Sticky() && r != backend.ContextIsDestroyed {
		err = fmt.Errorf("%w: %w", backend.LaunchFailed, err)
	}
	c.fault.CompareAndSwap(nil, &err)
}

// MarkDestroyed notes that the context is destroyed, or returns an error if the context was destroyed before.
func (c *ContextState) MarkDestroyed() error {
	if !c.gone.CompareAndSwap(false, true) {
		return c.destroyedError()
	}
	return nil
}

func (c *ContextState) destroyedError() error {
	return fmt.Errorf("context %d: %w", c.id, backend.ContextIsDestroyed)
}

// allocator is what AllocPitched needs of a context.
type allocator interface {
	CheckUsable() error
	Alloc(size uint64) (backend.Addr, error)
}

// AllocPitched is AllocPitch of backend.Context, for a context of a space of so many bytes.
func AllocPitched(c allocator, width, height uint64, element uint32, memory uint64) (backend.Addr, uint64, error) {
	if err := c.CheckUsable(); err != nil {
		return 0, 0, err
	}
	pitch, err := choosePitch(width, height, element, memory)
	if err != nil {
		return 0, 0, err
	}
	a, err := c.Alloc(pitch * height)
	return a, pitch, err
}
