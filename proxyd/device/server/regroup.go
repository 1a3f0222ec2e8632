// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"slices"
	"time"
)

// A job can have fewer devices of the machine than its programs see from the beginning on. Which of the job's devices are
// alike is not known then, so neighbours share. With Config.Regroup, the devices that turn out to be alike come together,
// and each of the machine's devices carries as many of the job's as before:
//
//	after a save  when the job goes on, at Resume or when the leader of the cut ends its attempt, by memory in common
//	              and by communicators. No work is under way, and a move takes no longer than an entry in a few lists
//	before one    by communicators, while the job runs, as Arrange has devices move
//
// Equal bytes that spaces have in common are there for each space after a move, until package softgpu brings them
// together again. So devices are moved only where that gains much.

const (
	// leastGain is the part by which the blocks that devices of the machine could hold once must grow.
	leastGain = 0.1
	// leastRarenessGain is how many times more seldom devices that share a device must meet, if the blocks in common are as many.
	leastRarenessGain = 2
)

// regroupOrder is an order that the job's devices are to have when the job goes on.
type regroupOrder struct {
	order []int
	alike []uint64 // as stateKeeper.alike, in that order
}

// sumOrder sums up the gain of an order: over each two devices that share a device of the machine.
func (a affinity) sumOrder(order []int) (common, rareness int) {
	for i, at := range order {
		c, m := a.sumAffinities(i, order[:i], at)
		common, rareness = common+c, rareness+m
	}
	return common, rareness
}

// improveOrder returns an order with the same places, each as often, in which devices share that are more alike. The
// result is nil if that gains too little.
func (a affinity) improveOrder(order []int) []int {
	next := a.groupDevices(order)
	hadCommon, hadRareness := a.sumOrder(order)
	common, rareness := a.sumOrder(next)
	switch {
	case common < hadCommon:
		return nil
	case float64(common) > (1+leastGain)*float64(hadCommon):
		return next
	case rareness > 0 && rareness >= leastRarenessGain*hadRareness:
		return next
	}
	return nil
}

// improvedOrder is improveOrder for the job's devices and their known affinities; nil, too, if the devices cannot move
// so. The caller holds state.mu.
func improvedOrder(s *Server) []int {
	a := affinity{s.state.common, computeMeetingRarity(len(s.devices), currentSums(s.allProcesses()))}
	next := a.improveOrder(placesOf(s))
	if s.checkPlaces(next) != nil {
		return nil
	}
	return next
}

// planRegrouping decides at a save which devices share when the job goes on here. The caller holds state.mu.
func planRegrouping(s *Server, st *serverState) {
	s.state.regroup = nil
	if !s.cfg.Regroup || s.state.placed {
		return
	}
	if next := improvedOrder(s); next != nil {
		s.state.regroup = &regroupOrder{next, alikeBytes(savedBlocks(st), next, len(s.machine.timeSlices))}
	}
}

const (
	// regroupLimit bounds the time for a move of stopped devices, which wait for no work.
	regroupLimit = time.Second
	// runningLimit bounds the time in which spaces of a job that runs wait for those that cannot be interrupted.
	runningLimit = 50 * time.Millisecond
	// runningRetry is when a move that took longer is tried again.
	runningRetry = time.Second
	// leastTimes is how often ranks have added up, all together, before their communicators say something of the job.
	leastTimes = 64
)

// regroupStopped carries out the decision of planRegrouping, and moves the spaces that could not be moved while the job
// ran. The job is stopped, and the caller holds state.mu.
func regroupStopped(s *Server) {
	if !s.cfg.Regroup {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, regroupLimit)
	defer cancel()
	was, next := placesOf(s), s.state.regroup
	if next == nil {
		next = &regroupOrder{was, s.state.alike}
	}
	if err := placeDevices(ctx, s, next.order); err != nil {
		s.cfg.Log.Warn("devices that are alike do not share a device", "error", err)
		return
	}
	s.state.alike = next.alike
	if !slices.Equal(was, next.order) {
		s.cfg.Log.Info("devices that are alike share a device now", "were", was, "are", next.order)
	}
}

// regroupRunning regroups the devices of a job that was not saved yet, until the job is saved.
func regroupRunning(s *Server) {
	var k sumsWatch
	retry := time.NewTimer(runningRetry)
	retry.Stop()
	defer retry.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.collectives.SumsNews:
		case <-retry.C:
		}
		over, late := k.watchSums(s)
		if over {
			return
		}
		if late {
			retry.Reset(runningRetry)
		}
	}
}

// watchSums has devices come together, if communicators say so now. over: the watch is over, because the job was saved.
// late: not all spaces were moved.
func (k *sumsWatch) watchSums(s *Server) (over, late bool) {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	switch {
	case s.state.common != nil || s.state.placed:
		return true, false
	case s.state.stopped || s.state.awaits || s.currentAttempt() != nil:
		return false, k.late
	}
	next := placesOf(s)
	if !k.late {
		sums := currentSums(s.allProcesses())
		if next = k.chooseOrder(next, sums); next == nil || s.checkPlaces(next) != nil {
			return false, false
		}
	}
	ctx, cancel := context.WithTimeout(s.ctx, runningLimit)
	defer cancel()
	err := placeDevices(ctx, s, next)
	k.late = errors.Is(err, context.DeadlineExceeded)
	if err == nil {
		s.cfg.Log.Info("devices that meet seldom share a device now", "are", next)
	}
	return false, k.late
}

// sumsWatch is the state of regroupRunning.
type sumsWatch struct {
	times uint64 // that ranks had added up when an order was chosen last
	next  []int  // the order
	late  bool   // spaces were not moved yet
}

// chooseOrder chooses an order by the sums that ranks have added up: nil, unless it is the same as when the ranks had
// added up half as often. The collectives at the end of a mini-batch are not known before it ends.
func (k *sumsWatch) chooseOrder(order []int, sums []deviceSums) []int {
	times := uint64(0)
	for _, d := range sums {
		times += d.Times
	}
	if times < max(leastTimes, 2*k.times) {
		return nil
	}
	was := k.next
	k.times, k.next = times, affinity{rareness: computeMeetingRarity(len(order), sums)}.improveOrder(order)
	if k.next == nil || !slices.Equal(k.next, was) {
		return nil
	}
	return k.next
}
