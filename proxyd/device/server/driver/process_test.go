// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"encoding/binary"
	"log/slog"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// TestFaultIsInRing: once a call has returned a fault, the ring has it, though the call that found the fault first is still at work.
func TestFaultIsInRing(t *testing.T) {
	ring, err := wire.Create(wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer ring.Close()
	found, goOn, returned := make(chan struct{}), make(chan struct{}), make(chan struct{})
	p := New(t.Context(), Config{Ring: ring, Log: slog.New(slog.DiscardHandler), OnFault: func(error) { close(found); <-goOn }})
	go func() {
		p.Result(backend.IllegalAddress)
		close(returned)
	}()
	<-found
	if r := p.Result(backend.IllegalAddress); r != 700 {
		t.Errorf("Result(IllegalAddress) = %v, want 700", r)
	}
	word := make([]byte, 4)
	if _, err := ring.File().ReadAt(word, 388); err != nil { // docs/formats.md: freed is at 384, fault behind it
		t.Fatal(err)
	}
	if fault := binary.LittleEndian.Uint32(word); fault != 700 {
		t.Errorf("the ring has fault %d", fault)
	}
	close(goOn)
	<-returned
}
