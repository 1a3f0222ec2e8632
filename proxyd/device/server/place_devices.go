// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// ErrNotPlaced is why the job's devices cannot be on other devices of the machine. The reason is wrapped, too.
var ErrNotPlaced = errors.New("the job's devices cannot be placed so")

// Place has the job's devices be on other devices of the backend while the job runs; order is as Config.Order, and has
// an item for each of the job's devices. Running work is interrupted, if the backend can interrupt it, and goes on
// there. When Place returns nil, the job has no memory or work left on a device that the order does not name. With an
// impossible order, the job stays where it was. When ctx ends Place, work that could not be interrupted goes on where
// it was, all else is in its new place, and the same call may be repeated. Place waits for a save that is being made.
func (s *Server) Place(ctx context.Context, order []int) error {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	err := placeDevices(ctx, s, order)
	s.state.placed = s.state.placed || !errors.Is(err, ErrNotPlaced)
	return err
}

// Arrange is Place with an order in which only counts how often each device of the backend is named: which of the job's
// devices share a device is decided by the memory that they had in common at the last save or restore and, where they
// had no memory in common or there was no save, by their communicators. Where the job has no communicators, Arrange is
// Place; so it is, too, where the devices have different sizes and the job's would not fit.
func (s *Server) Arrange(ctx context.Context, order []int) error {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	if n := len(s.devices); len(order) == n && n > 0 {
		if arranged := (affinity{s.state.common, computeMeetingRarity(n, currentSums(s.allProcesses()))}).groupDevices(order); s.checkPlaces(arranged) == nil {
			order = arranged
		}
	}
	return placeDevices(ctx, s, order)
}

// placeDevices is Place. The caller holds the server's state.mu.
func placeDevices(ctx context.Context, s *Server, order []int) error {
	if s.state.awaits {
		return fmt.Errorf("nothing was restored yet: %w", ErrNotPlaced)
	}
	if err := s.checkPlaces(order); err != nil {
		return fmt.Errorf("%w: %w", ErrNotPlaced, err)
	}
	was := placesOf(s)
	setPlaces(s, order)
	s.state.alike, s.state.regroup = nil, nil // were decided for the places before
	err := s.moveSpaces(ctx)
	if err == nil || ctx.Err() != nil {
		return err
	}
	// The backend has refused. What has moved already moves back.
	setPlaces(s, was)
	return fmt.Errorf("%w: %w", ErrNotPlaced, errors.Join(err, s.moveSpaces(ctx)))
}

// setPlaces has spaces that are made from now on be at other places.
func setPlaces(s *Server, order []int) {
	for i, at := range order {
		s.devices[i].SetPlace(s.machine.placeAt(at))
	}
}

// checkPlaces checks an order for the job's devices.
func (s *Server) checkPlaces(order []int) error {
	if len(order) != len(s.devices) {
		return fmt.Errorf("%d places for %d devices", len(order), len(s.devices))
	}
	moves := false
	for i, at := range order {
		if at < 0 || at >= len(s.machine.timeSlices) {
			return fmt.Errorf("device %d on device %d of %d", i, at, len(s.machine.timeSlices))
		}
		to, is := s.machine.placeAt(at), s.devices[i].Place()
		if to.Info().Memory < s.devices[i].Info().Memory {
			return fmt.Errorf("device %d has %d bytes of memory, and device %d of the machine %d", i, s.devices[i].Info().Memory, at, to.Info().Memory)
		}
		if to.TimeSlices == is.TimeSlices {
			continue
		}
		moves = true
		for _, p := range s.allProcesses() {
			if p.InTeam(s.devices[i]) {
				return fmt.Errorf("device %d is in a communicator of NCCL, which stays on its GPUs until the job is restored: %w", i, backend.NotSupported)
			}
		}
	}
	if !moves {
		return nil
	}
	for _, p := range s.allProcesses() {
		for _, space := range p.Spaces() {
			if _, is := space.Space.(backend.Mover); !is {
				return fmt.Errorf("devices of this kind stay where they are: %w", backend.NotSupported)
			}
		}
	}
	return nil
}

// moveSpaces moves the spaces of all processes to where their devices are. The caller holds state.mu.
func (s *Server) moveSpaces(ctx context.Context) error {
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, firstLook) {
		there, all := true, s.allProcesses()
		for _, p := range all {
			moved, err := s.machine.moveSpaces(p)
			if err != nil {
				resumeUnmoved(all)
				return fmt.Errorf("process %d: %w", p.ID, err)
			}
			there = there && moved
		}
		if there {
			return nil
		}
		if !pauseFor(ctx, pause) {
			resumeUnmoved(all)
			return fmt.Errorf("work goes on that cannot be interrupted: %w", context.Cause(ctx))
		}
	}
}

// moveSpaces moves the spaces of a process, one process of the machine at a time.
func (m *Machine) moveSpaces(p *process) (bool, error) {
	m.moving.Lock()
	defer m.moving.Unlock()
	return p.MoveSpaces()
}

// placesOf is for each of the job's devices the device of the backend where it is.
func placesOf(s *Server) []int {
	out := make([]int, len(s.devices))
	for i, d := range s.devices {
		out[i] = slices.Index(s.machine.timeSlices, d.Place().TimeSlices)
	}
	return out
}

// resumeUnmoved lets spaces that were not moved go on where they are.
func resumeUnmoved(all []*process) {
	for _, p := range all {
		p.StayPut()
	}
}
