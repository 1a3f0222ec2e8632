// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package passwd reads the accounts of a host from the host's own files. Package os/user would read
// the accounts of the machine on which this program runs.
package passwd

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// User is a line of a passwd file with the groups that name the user.
type User struct {
	Name, Home, Shell string
	UID, GID          uint32
	Groups            []uint32
}

// Find returns the user called name from etc/passwd and etc/group. The error for a name that is
// not there lists the users that are.
func Find(etc, name string) (User, error) {
	lines, err := readLines(filepath.Join(etc, "passwd"))
	if err != nil {
		return User{}, err
	}
	var people []string
	for _, line := range lines {
		u, ok := parseLine(line)
		if ok && u.Name == name {
			u.Groups, err = readGroups(filepath.Join(etc, "group"), name)
			return u, err
		}
		if ok && u.isPerson() {
			people = append(people, u.Name)
		}
	}
	return User{}, fmt.Errorf("no user %q here (users: %s)", name, strings.Join(people, " "))
}

// People returns the users that stand for a person, in the file's order.
func People(etc string) ([]User, error) {
	lines, err := readLines(filepath.Join(etc, "passwd"))
	if err != nil {
		return nil, err
	}
	var people []User
	for _, line := range lines {
		if u, ok := parseLine(line); ok && u.isPerson() && u.UID != 0 {
			people = append(people, u)
		}
	}
	return people, nil
}

func (u User) isPerson() bool { return u.UID == 0 || u.UID >= 1000 && u.UID < 60000 }

func parseLine(line string) (User, bool) {
	f := strings.Split(line, ":")
	if len(f) != 7 {
		return User{}, false
	}
	uid, errU := strconv.ParseUint(f[2], 10, 32)
	gid, errG := strconv.ParseUint(f[3], 10, 32)
	if errU != nil || errG != nil {
		return User{}, false
	}
	return User{Name: f[0], Home: f[5], Shell: f[6], UID: uint32(uid), GID: uint32(gid)}, true
}

func readGroups(path, name string) ([]uint32, error) {
	lines, err := readLines(path)
	if err != nil {
		return nil, err
	}
	var gids []uint32
	for _, line := range lines {
		f := strings.Split(line, ":")
		if len(f) != 4 || !slices.Contains(strings.Split(f[3], ","), name) {
			continue
		}
		if gid, err := strconv.ParseUint(f[2], 10, 32); err == nil {
			gids = append(gids, uint32(gid))
		}
	}
	return gids, nil
}

func readLines(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var lines []string
	s := bufio.NewScanner(f)
	for s.Scan() {
		lines = append(lines, s.Text())
	}
	return lines, s.Err()
}
