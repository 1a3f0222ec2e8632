// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"fmt"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// OwnerNumbers gives out the numbers of a machine's spaces (backend.SpaceConfig.Owner). The driver of real devices puts
// variables of modules at addresses that follow from the number, and a restored space has its former number. So each of a
// job's capsules takes numbers of its own from the beginning, and capsules that come to one device later can be in one
// process:
//
//	place    number modulo backend.OwnerPlaces: numbers with the same place have the same addresses; place 0 is not given out
//	class    place modulo ownerClasses, which follows from the capsule's number: the capsule takes places of its class first
//	others   when all places of the class are taken: any place
//
// Numbers of a capsule may still come to the places of another capsule's. Such capsules are kept in processes of their own,
// by what their checkpoints say (package gpus); ClaimNumber refuses them.
type OwnerNumbers struct {
	mu     sync.Mutex
	users  [backend.OwnerPlaces]placeUser
	rounds uint64 // numbers that were given out while all places were taken
}

// placeUser says which spaces have a place. Places are given to another space only when no unused place is left: a driver may
// keep addresses of a context that has ended.
type placeUser struct {
	group  uint64 // of the server, as in Sharing; 0: the place was not used yet
	spaces int    // that have the place now
}

const (
	ownerClasses = 16
	ownerSlots   = (backend.OwnerPlaces - 1) / ownerClasses // places of a class
	// Capsules of the same class begin so many places of their class apart.
	ownerStride = ownerSlots / 4
)

// placeOf is the n-th place that a capsule takes.
func placeOf(capsule, n int) uint64 {
	slot := (capsule/ownerClasses*ownerStride + n) % ownerSlots
	return uint64(1 + slot*ownerClasses + capsule%ownerClasses)
}

// TakeNumber returns a number for a new space of a capsule. group is the server's.
func (o *OwnerNumbers) TakeNumber(group uint64, capsule int) uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, free := range []func(placeUser) bool{
		func(u placeUser) bool { return u.group == 0 },
		func(u placeUser) bool { return u.spaces == 0 },
	} {
		for n := range ownerSlots {
			if place := placeOf(capsule, n); free(o.users[place]) {
				return o.enterPlace(place, group)
			}
		}
		for place := uint64(1); place < backend.OwnerPlaces; place++ {
			if free(o.users[place]) {
				return o.enterPlace(place, group)
			}
		}
	}
	// Spaces share a place: each number is another number, and a restore is refused where a variable moves.
	o.rounds++
	return o.enterPlace(placeOf(capsule, int(o.rounds%ownerSlots)), group) + o.rounds*backend.OwnerPlaces
}

// ClaimNumber notes the number of a space that comes back, which no space of another server of the machine may have.
func (o *OwnerNumbers) ClaimNumber(group, number uint64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if number == 0 || number > 1<<62 {
		return fmt.Errorf("no space has the number %d: %w", number, ErrRestore)
	}
	place := number % backend.OwnerPlaces
	if u := o.users[place]; u.spaces > 0 && u.group != group {
		return fmt.Errorf("variables of another capsule's modules lie where those of its own are to be (number %d): %w", number, ErrRestore)
	}
	o.enterPlace(place, group)
	return nil
}

// enterPlace notes a space at a place, which is its number, too. The caller holds mu.
func (o *OwnerNumbers) enterPlace(place, group uint64) uint64 {
	o.users[place].group = group
	o.users[place].spaces++
	return place
}

// ReleaseNumber notes that a space has ended.
func (o *OwnerNumbers) ReleaseNumber(number uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.users[number%backend.OwnerPlaces].spaces--
}
