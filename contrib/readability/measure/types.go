// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"go/ast"
	"slices"
	"strings"
)

// riddles are words that name no thing: pronouns, adverbs, adjectives, verbs, and participles without -ed or -ing.
var riddles = strings.Fields(`
	absent all also any asks away basic began begun both broken busy came climb cheap cold common done dumb each earlier
	else endless except far fast few fixed found full gave given goes gone had held her here hers hidden his how
	immobile its kept known last late later least led left less like live lives loose lost made many mine modern more
	most mute next nobody none nothing now nowhere old once one other others our over own past periodic random ready
	rest same saw says seen sent several short shown shut slow small some somebody special spent stay stopped straight
	stuck such taken talk their theirs them then there they this those told took torn under uneven us virtual we went
	what when where which who whom whose why with worn written wrong yours`)

// nouns end like participles, and name things.
var nouns = strings.Fields(`
	binding building drawing ending feed finding gathering heading holding landing lending listing mapping meeting
	munged need padding pairing parking ping reading recording reed ring rounding routing saying scheduling seed
	serving setting shed sharing sled slurmctld slurmd slurmstepd speed spelling staging string thing timing training
	tuning warning weed wing wording writing`)

// IsRiddle says whether the name of a type is a lone adjective, participle, pronoun or verb, such as kept, noted or
// Seen, so that the reader has to look up what the type is. The words are those of a list, and all words with the ends
// -ed and -ing but for some nouns.
func IsRiddle(name string) bool {
	if !isOneWord(name) {
		return false
	}
	word := strings.ToLower(name)
	if slices.Contains(riddles, word) {
		return true
	}
	participle := len(word) > len("ing") && (strings.HasSuffix(word, "ed") || strings.HasSuffix(word, "ing"))
	return participle && !slices.Contains(nouns, word)
}

// addTypes counts the types that a file declares, also within functions.
func (c *Counts) addTypes(file *ast.File) {
	ast.Inspect(file, func(node ast.Node) bool {
		declared, ok := node.(*ast.TypeSpec)
		if ok {
			c.Types++
			if IsRiddle(declared.Name.Name) {
				c.RiddledTypes++
			}
		}
		return true
	})
}
