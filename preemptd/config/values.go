// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/config/table"
)

// Each function below returns how a kind of value is read into its field. Its error names the accepted values.

func wantText(field func(*Config) *string, check func(string) bool, want string) func(*Config, string) error {
	return func(c *Config, v string) error {
		if !check(v) {
			return errors.New(want)
		}
		*field(c) = v
		return nil
	}
}

func isPath(v string) bool { return filepath.IsAbs(v) && !strings.ContainsAny(v, "\x00\n") }

func isAbsolute(v string) bool { return v == "" || isPath(v) }

func isName(v string) bool { return v == "" || nameSyntax.MatchString(v) }

func isAddress(v string) bool {
	return strings.HasPrefix(v, "unix:/") || strings.HasPrefix(v, "http://") || strings.HasPrefix(v, "https://")
}

func isPort(v string) bool {
	n, err := strconv.ParseUint(v, 10, 16)
	return err == nil && n > 0
}

// hostPort reports whether v is an address to listen at, or empty; port 0 is any free port.
func hostPort(v string) bool {
	_, port, err := net.SplitHostPort(v)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	return v == "" || err == nil
}

var nameSyntax = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

func wantNames(field func(*Config) *[]string) func(*Config, string) error {
	return wantList(field, nameSyntax, "names, each once, separated by commas")
}

var memberSyntax = regexp.MustCompile(`^@?[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

// wantMembers are users, and groups with "@".
func wantMembers(field func(*Config) *[]string) func(*Config, string) error {
	return wantList(field, memberSyntax, "users, and groups as @name, each once, separated by commas")
}

func wantList(field func(*Config) *[]string, syntax *regexp.Regexp, want string) func(*Config, string) error {
	return func(c *Config, v string) error {
		var list []string
		seen := map[string]bool{}
		for s := range strings.SplitSeq(v, ",") {
			if s = strings.TrimSpace(s); s == "" {
				continue
			}
			if !syntax.MatchString(s) || seen[s] {
				return errors.New(want)
			}
			seen[s] = true
			list = append(list, s)
		}
		*field(c) = list
		return nil
	}
}

// wantAge is a duration of at least least.
func wantAge(field func(*Config) *time.Duration, least time.Duration) func(*Config, string) error {
	return func(c *Config, v string) error {
		d, err := table.ParseDuration(v)
		if err != nil {
			return err
		}
		if d < least {
			return fmt.Errorf("at least %s", least)
		}
		*field(c) = d
		return nil
	}
}
