//go:build install

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"os"
	"strings"
	"testing"
)

// page is docs/install.md: the fenced blocks of each section, in order.
type page map[string][]string

func readPage(t *testing.T) page {
	t.Helper()
	text, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := page{}
	section, block, inside := "", "", false
	for line := range strings.Lines(string(text)) {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence && inside:
			blocks[section] = append(blocks[section], block)
			block, inside = "", false
		case fence:
			inside = true
		case inside:
			block += strings.TrimPrefix(line, "  ") // of an item of a list
		case strings.HasPrefix(line, "## "):
			section = strings.TrimSpace(strings.TrimPrefix(line, "## "))
		}
	}
	return blocks
}

// findBlock returns the first block of a section that contains a text.
func (p page) findBlock(t *testing.T, section, containing string) string {
	t.Helper()
	for _, b := range p[section] {
		if strings.Contains(b, containing) {
			return b
		}
	}
	t.Fatalf("docs/install.md, section %q, has no block with %q", section, containing)
	return ""
}

// commandsOf returns the lines of a block, without comments after a #.
func commandsOf(block string) []string {
	var all []string
	for line := range strings.Lines(block) {
		line, _, _ = strings.Cut(line, "  #")
		if line = strings.TrimSpace(strings.TrimPrefix(line, "$ ")); line != "" {
			all = append(all, line)
		}
	}
	return all
}
