// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package page writes the measurements of a command into the command's place in a page of the documentation.
//
//	<!-- make bench writes from here -->
//	the place of the command "make bench"
//	<!-- to here -->
//
// The text around a place is written by people, and is not changed.
package page

import (
	"fmt"
	"os"
	"strings"
)

const placeEnd = "<!-- to here -->\n"

// Read returns the text in the place of a command.
func Read(file, command string) (string, error) {
	_, place, _, err := splitPage(file, command)
	return place, err
}

// Write replaces the text in the place of a command. The new text ends with a newline.
func Write(file, command, text string) error {
	before, _, after, err := splitPage(file, command)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(before+text+after), 0o644)
}

// splitPage returns the page before, in and after the place of a command. Before and after include the marks.
func splitPage(file, command string) (before, place, after string, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", "", "", err
	}
	begin := "<!-- " + command + " writes from here -->\n"
	before, rest, found := strings.Cut(string(text), begin)
	place, after, ended := strings.Cut(rest, placeEnd)
	if !found || !ended {
		return "", "", "", fmt.Errorf("%s has no place for %s: %q and %q", file, command, begin, placeEnd)
	}
	return before + begin, place, placeEnd + after, nil
}
