// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// checker finds what would fail when it is run, before it is: attributes that nothing has,
// texts that an attribute never is, arguments that a verb does not take. What it cannot tell
// the kind of it lets pass, as long as anything has such an attribute.
type checker struct {
	kinds map[string]string // of the names that are known here: "job", "(job)" and "[job]" for a tuple and a list of them, "" for anything
	wrong []mistake
}

type mistake struct {
	at   syntax.Position
	text string
}

// check says what is wrong with a file, each with its line and column.
func check(file *syntax.File) error {
	c := &checker{kinds: map[string]string{}}
	c.statements(file.Stmts)
	slices.SortFunc(c.wrong, func(a, b mistake) int {
		return cmp.Or(cmp.Compare(a.at.Line, b.at.Line), cmp.Compare(a.at.Col, b.at.Col))
	})
	errs := make([]error, 0, len(c.wrong))
	for _, m := range slices.CompactFunc(c.wrong, func(a, b mistake) bool { return a == b }) {
		errs = append(errs, fmt.Errorf("%v: %s", m.at, m.text))
	}
	return errors.Join(errs...)
}

func (c *checker) fail(at syntax.Position, format string, args ...any) {
	c.wrong = append(c.wrong, mistake{at, fmt.Sprintf(format, args...)})
}

// inside runs f where more names are known, and forgets them after it.
func (c *checker) inside(f func()) {
	outer := c.kinds
	c.kinds = make(map[string]string, len(outer))
	for name, kind := range outer {
		c.kinds[name] = kind
	}
	f()
	c.kinds = outer
}

func (c *checker) statements(all []syntax.Stmt) {
	for _, s := range all {
		if d, ok := s.(*syntax.DefStmt); ok { // it may be called above
			c.bind(d.Name, "")
		}
	}
	for _, s := range all {
		c.statement(s)
	}
}

func (c *checker) statement(s syntax.Stmt) {
	switch s := s.(type) {
	case *syntax.DefStmt:
		c.define(s)
	case *syntax.AssignStmt:
		kind := c.kind(s.RHS)
		if s.Op != syntax.EQ && kind != c.kind(s.LHS) {
			kind = ""
		}
		if name, ok := s.LHS.(*syntax.Ident); ok {
			if was, known := c.kinds[name.Name]; known && was != kind {
				kind = "" // one or the other
			}
		}
		c.bind(s.LHS, kind)
	case *syntax.ForStmt:
		c.bind(s.Vars, each(c.kind(s.X)))
		c.statements(s.Body)
	case *syntax.IfStmt:
		c.kind(s.Cond)
		c.statements(s.True)
		c.statements(s.False)
	case *syntax.ExprStmt:
		c.kind(s.X)
	case *syntax.ReturnStmt:
		if s.Result != nil {
			c.kind(s.Result)
		}
	}
}

// define looks into a function. What is passed to it is known of decide only.
func (c *checker) define(s *syntax.DefStmt) {
	c.inside(func() {
		for _, p := range s.Params {
			c.bind(parameter(p), "")
		}
		if s.Name.Name == "decide" && len(s.Params) == 1 {
			c.bind(parameter(s.Params[0]), "cluster")
		}
		c.statements(s.Body)
	})
}

// parameter is the name in one of a function's parameters.
func parameter(p syntax.Expr) syntax.Expr {
	switch p := p.(type) {
	case *syntax.BinaryExpr: // name = default
		return p.X
	case *syntax.UnaryExpr: // *args
		return p.X
	}
	return p
}

// bind gives names their kind.
func (c *checker) bind(to syntax.Expr, kind string) {
	switch to := to.(type) {
	case *syntax.Ident:
		c.kinds[to.Name] = kind
	case *syntax.ParenExpr:
		c.bind(to.X, kind)
	case *syntax.TupleExpr:
		for _, x := range to.List {
			c.bind(x, "")
		}
	case *syntax.ListExpr:
		for _, x := range to.List {
			c.bind(x, "")
		}
	case nil:
	default:
		c.kind(to)
	}
}

// each is the kind of one of many.
func each(kind string) string {
	if strings.HasPrefix(kind, "[") || strings.HasPrefix(kind, "(") {
		return kind[1 : len(kind)-1]
	}
	return ""
}

// many is the kind of a list of them.
func many(kind string) string {
	if kind == "job" || kind == "node" {
		return "[" + kind + "]"
	}
	return ""
}

// kind looks into an expression, and is what it makes, as far as that is known.
func (c *checker) kind(e syntax.Expr) string {
	switch e := e.(type) {
	case *syntax.Ident:
		return c.kinds[e.Name]
	case *syntax.ParenExpr:
		return c.kind(e.X)
	case *syntax.DotExpr:
		return c.attribute(e)
	case *syntax.CallExpr:
		return c.call(e)
	case *syntax.IndexExpr:
		c.kind(e.Y)
		return each(c.kind(e.X))
	case *syntax.SliceExpr:
		for _, bound := range []syntax.Expr{e.Lo, e.Hi, e.Step} {
			if bound != nil {
				c.kind(bound)
			}
		}
		return c.kind(e.X)
	case *syntax.BinaryExpr:
		return c.binary(e)
	case *syntax.CondExpr:
		c.kind(e.Cond)
		return c.either(e.True, e.False)
	case *syntax.Comprehension:
		return c.comprehension(e)
	case *syntax.LambdaExpr:
		c.lambda(e, "")
		return ""
	}
	c.children(e)
	return ""
}

// either is what two expressions have in common.
func (c *checker) either(a, b syntax.Expr) string {
	if one, other := c.kind(a), c.kind(b); one == other {
		return one
	}
	return ""
}

// children looks into the parts of an expression of no kind of ours.
func (c *checker) children(e syntax.Expr) {
	switch e := e.(type) {
	case *syntax.ListExpr:
		for _, x := range e.List {
			c.kind(x)
		}
	case *syntax.TupleExpr:
		for _, x := range e.List {
			c.kind(x)
		}
	case *syntax.DictExpr:
		for _, x := range e.List {
			c.kind(x)
		}
	case *syntax.DictEntry:
		c.kind(e.Key)
		c.kind(e.Value)
	case *syntax.UnaryExpr:
		if e.X != nil {
			c.kind(e.X)
		}
	}
}

func (c *checker) lambda(e *syntax.LambdaExpr, kind string) {
	c.inside(func() {
		for _, p := range e.Params {
			c.bind(parameter(p), kind)
		}
		c.kind(e.Body)
	})
}

func (c *checker) comprehension(e *syntax.Comprehension) (kind string) {
	c.inside(func() {
		for _, clause := range e.Clauses {
			switch clause := clause.(type) {
			case *syntax.ForClause:
				c.bind(clause.Vars, each(c.kind(clause.X)))
			case *syntax.IfClause:
				c.kind(clause.Cond)
			}
		}
		kind = many(c.kind(e.Body))
	})
	if e.Curly {
		return ""
	}
	return kind
}

// call looks into a call. Some functions return what they are given.
func (c *checker) call(e *syntax.CallExpr) string {
	name, _ := e.Fn.(*syntax.Ident)
	if name == nil {
		c.kind(e.Fn)
	}
	kind := ""
	for i, arg := range e.Args {
		if named, ok := arg.(*syntax.BinaryExpr); ok && named.Op == syntax.EQ {
			if l, ok := named.Y.(*syntax.LambdaExpr); ok {
				c.lambda(l, each(kind)) // sorted(jobs, key = lambda j: …)
				continue
			}
			c.kind(named.Y)
			continue
		}
		if of := c.kind(arg); i == 0 {
			kind = of
		}
	}
	if name == nil {
		return ""
	}
	if _, shadowed := c.kinds[name.Name]; shadowed {
		return ""
	}
	if verb, err := sdk.ParseVerb(name.Name); err == nil {
		c.verb(e, verb)
		return "intent"
	}
	switch name.Name {
	case "sorted", "list", "reversed":
		return many(each(kind))
	case "min", "max":
		return each(kind)
	}
	return ""
}

// values of the kinds, which know their attributes.
var values = map[string]starlark.HasAttrs{
	"cluster": newCluster(sample()),
	"job":     newJob(sample(), 0),
	"node":    newNode(sample(), 0),
}
