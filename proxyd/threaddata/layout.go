// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package threaddata

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// MemberOf returns the offset of a member of a structure; a dot in the name leads into a member that is a structure
// itself.
func MemberOf(spec *btf.Spec, structure, member string) (uint32, error) {
	var s *btf.Struct
	if err := spec.TypeByName(structure, &s); err != nil {
		return 0, fmt.Errorf("struct %s: %w", structure, err)
	}
	var t btf.Type = s
	at := uint32(0)
	for name := range strings.SplitSeq(member, ".") {
		offset, next, ok := findMember(t, name)
		if !ok {
			return 0, fmt.Errorf("struct %s: no member %s: %w", structure, member, errors.ErrUnsupported)
		}
		at, t = at+offset, next
	}
	return at, nil
}

// findMember looks for a member in a structure or union, and in its members without a name.
func findMember(t btf.Type, name string) (uint32, btf.Type, bool) {
	var members []btf.Member
	switch s := btf.UnderlyingType(t).(type) {
	case *btf.Struct:
		members = s.Members
	case *btf.Union:
		members = s.Members
	}
	for _, m := range members {
		if m.Name == name {
			return m.Offset.Bytes(), m.Type, true
		}
		if m.Name != "" {
			continue
		}
		if at, found, ok := findMember(m.Type, name); ok {
			return m.Offset.Bytes() + at, found, true
		}
	}
	return 0, nil, false
}
