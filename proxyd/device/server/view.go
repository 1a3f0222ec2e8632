// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/nvml"
)

// visibility is a process's claim about the devices that the process is to see.
type visibility struct {
	visible *string // the value of its CUDA_VISIBLE_DEVICES; nil: all
	names   string  // Slurm's names of the devices, in the server's order: "2,3"
}

// viewOf returns the server's devices that a process sees, in the process's order. As with CUDA, a list is read up to
// the first item that means no device, and a list that names a device twice leaves no device visible. If there are no
// names, or not all the numbers of the list are among them, the numbers count the devices from 0.
func (s *Server) viewOf(sees visibility) []int {
	all := make([]int, len(s.devices))
	for i := range all {
		all[i] = i
	}
	if sees.visible == nil {
		return all
	}
	items := strings.Split(*sees.visible, ",")
	for i := range items {
		items[i] = strings.TrimSpace(items[i])
	}
	view := []int{}
	for _, item := range items {
		at := s.deviceNamed(item, numberOf(items, sees.names))
		if at < 0 {
			break
		}
		if slices.Contains(view, at) {
			return []int{}
		}
		view = append(view, at)
	}
	return view
}

// numberOf returns the function that finds the device of a number in a list: by its name, if names has all numbers of
// the list.
func numberOf(items []string, names string) func(string) (int, error) {
	named := strings.Split(names, ",")
	for _, item := range items {
		if _, err := strconv.Atoi(item); err == nil && !slices.Contains(named, item) {
			return strconv.Atoi
		}
	}
	return func(item string) (int, error) {
		if _, err := strconv.Atoi(item); err != nil {
			return 0, err
		}
		return slices.Index(named, item), nil
	}
}

// deviceNamed finds a device by its number or by the beginning of its UUID, which no other may have; -1: no such
// device.
func (s *Server) deviceNamed(item string, number func(string) (int, error)) int {
	if n, err := number(item); err == nil {
		if n < 0 || n >= len(s.devices) {
			return -1
		}
		return n
	}
	if !strings.HasPrefix(item, "GPU-") {
		return -1
	}
	found := -1
	for i, d := range s.devices {
		if id := nvml.UUIDText(d.Info().UUID); len(item) <= len(id) && strings.EqualFold(id[:len(item)], item) {
			if found >= 0 {
				return -1
			}
			found = i
		}
	}
	return found
}

// checkView checks the view of a saved process.
func (s *Server) checkView(view []int) error {
	for i, at := range view {
		if at < 0 || at >= len(s.devices) || slices.Contains(view[:i], at) {
			return fmt.Errorf("it sees devices %v: %w", view, ErrRestore)
		}
	}
	return nil
}
