// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
)

// ErrArgument is wrapped by the errors about an Op that is not valid; then no operation was issued.
var ErrArgument = errors.New("invalid argument")

// Op is a rank's part in an operation. Count is in elements and means the same as in NCCL: of each
// rank's vector for AllReduce, Reduce and Broadcast; of a rank's received vector for ReduceScatter
// and Scatter; of a rank's sent vector for AllGather and Gather; of each pair of ranks for
// AllToAll.
//
// Send and Recv are device memory. They belong to the operation until it is complete, and may be
// longer than needed. A rank that only sends needs no Recv, and a rank that only receives no
// Send: in Reduce and Gather only the root receives, in Broadcast and Scatter only the root
// sends. Recv may be the same memory as Send, or its part, as with NCCL's "in place"; any other
// overlap gives undefined bytes.
type Op struct {
	Kind       Kind
	Type       Type
	Reduction  Reduction
	Scale      []byte // PreMulSum: a single element, this rank's factor; copied by Issue
	Count      int
	Root, Peer int // a rank; Peer of Send and Recv
	Send, Recv []byte

	split *splitPart
	got   *newcomer
}

// Needs tells how many bytes rank's buffers must have in a communicator of n ranks.
func (o *Op) Needs(rank, n int) (send, recv int) {
	one := o.Count * o.Type.Size()
	all := one * n
	root := rank == o.Root
	switch o.Kind {
	case AllReduce:
		return one, one
	case Reduce:
		return one, countIf(root, one)
	case ReduceScatter:
		return all, one
	case Broadcast:
		return countIf(root, one), one
	case AllGather:
		return one, all
	case AllToAll:
		return all, all
	case Gather:
		return one, countIf(root, all)
	case Scatter:
		return countIf(root, all), one
	case Send:
		return one, 0
	case Recv:
		return 0, one
	}
	return 0, 0
}

func countIf(yes bool, n int) int {
	if yes {
		return n
	}
	return 0
}

// checkFor returns o in the form for rank: buffers cut to the needed length, unused fields
// zeroed.
func (o Op) checkFor(rank, n int) (Op, error) {
	bad := func(format string, args ...any) (Op, error) {
		return Op{}, fmt.Errorf("rank %d: %s: %w: %s", rank, o.Kind, ErrArgument, fmt.Sprintf(format, args...))
	}
	switch {
	case o.Kind >= kinds:
		return bad("no such kind")
	case o.Type >= types:
		return bad("no such type")
	case o.Kind.isReduction() && o.Reduction >= reductions:
		return bad("no such reduction")
	case o.Count < 0 || o.Count > math.MaxInt/2/8/n:
		return bad("count %d", o.Count)
	case o.Kind.hasRoot() && (o.Root < 0 || o.Root >= n):
		return bad("root %d of %d ranks", o.Root, n)
	case o.Kind >= Send && (o.Peer < 0 || o.Peer >= n):
		return bad("peer %d of %d ranks", o.Peer, n)
	}
	if !o.Kind.isReduction() {
		o.Reduction = 0
	}
	if o.Kind.isReduction() && o.Reduction == PreMulSum {
		if len(o.Scale) != o.Type.Size() {
			return bad("scale of %d bytes for %s", len(o.Scale), o.Type)
		}
		o.Scale = append([]byte(nil), o.Scale...)
	} else {
		o.Scale = nil
	}
	send, recv := o.Needs(rank, n)
	if len(o.Send) < send {
		return bad("send buffer of %d bytes, %d needed", len(o.Send), send)
	}
	if len(o.Recv) < recv {
		return bad("receive buffer of %d bytes, %d needed", len(o.Recv), recv)
	}
	o.Send, o.Recv = o.Send[:send:send], o.Recv[:recv:recv]
	return o, nil
}

// agreedHash is a hash of the fields on which all ranks must agree. The signature travels with
// every message, so that a program with ranks that do not agree gets an error and not a wrong
// result.
func (o *Op) agreedHash() uint32 {
	h := fnv.New32a()
	b := []byte{byte(o.Kind), byte(o.Type), byte(o.Reduction)}
	b = binary.LittleEndian.AppendUint64(b, uint64(o.Count))
	if o.Kind.hasRoot() {
		b = binary.LittleEndian.AppendUint32(b, uint32(o.Root))
	}
	h.Write(b) //nolint:errcheck // a hash's Write never fails
	return h.Sum32()
}

func (o *Op) String() string {
	s := fmt.Sprintf("%s of %d %s", o.Kind, o.Count, o.Type)
	if o.Kind.isReduction() {
		s += ", " + o.Reduction.String()
	}
	if o.Kind.hasRoot() {
		s += fmt.Sprintf(", root %d", o.Root)
	}
	return s
}
