package suite

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"
)

// Bounds of one file, beside MaxFile. They are far above what a person writes and
// low enough for a hostile file to cost about a second at most: the YAML library
// takes quadratic time for many keys and for long runs of blank lines.
const (
	maxTokens   = 20_000
	maxBlank    = 1000 // blank lines in a row
	maxNesting  = 16
	maxAnchors  = 64
	maxAliases  = 256
	maxProblems = 20
	maxCommand  = 64 << 10 // bytes of a command
	maxArgs     = 1024
	maxEnv      = 128
	maxID       = 64
)

// Parse reads a writ.yaml. name is what errors call the file.
//
// It is strict: unknown and repeated members, wrong types, tags, merge keys and
// more than one document are refused. Anchors and aliases are understood and
// bounded. An empty file is a file that sets nothing. The error is ConfigErrors;
// it reports up to 20 problems together.
func Parse(name string, data []byte) (*Config, error) {
	p := &fileParser{file: name, anchors: map[string]ast.Node{}}
	cfg := p.parse(data)
	if len(p.problems) > 0 {
		slices.SortStableFunc(p.problems, func(a, b *ConfigError) int {
			if a.Line != b.Line {
				return a.Line - b.Line
			}
			return a.Column - b.Column
		})
		if more := len(p.problems) - maxProblems; more > 0 {
			p.problems = append(p.problems[:maxProblems],
				&ConfigError{File: name, Message: fmt.Sprintf("there are %d more problems", more)})
		}
		return nil, p.problems
	}
	return cfg, nil
}

type fileParser struct {
	file     string
	problems ConfigErrors
	anchors  map[string]ast.Node
}

func (p *fileParser) problem(line, column int, format string, args ...any) {
	p.problems = append(p.problems, &ConfigError{File: p.file, Line: line, Column: column, Message: fmt.Sprintf(format, args...)})
}

func (p *fileParser) at(n ast.Node, format string, args ...any) {
	p.atToken(start(n), format, args...)
}

// start returns the token a value begins with. The library calls the colon the
// token of a mapping.
func start(n ast.Node) *token.Token {
	switch m := n.(type) {
	case *ast.MappingNode:
		if !m.IsFlowStyle && len(m.Values) > 0 {
			return start(m.Values[0])
		}
	case *ast.MappingValueNode:
		return m.Key.GetToken()
	}
	return n.GetToken()
}

func (p *fileParser) atToken(t *token.Token, format string, args ...any) {
	if t == nil || t.Position == nil {
		p.problem(0, 0, format, args...)
		return
	}
	p.problem(t.Position.Line, t.Position.Column, format, args...)
}

func (p *fileParser) parse(data []byte) *Config {
	if len(data) > MaxFile {
		p.problem(0, 0, "the file has %d bytes, more than the %d allowed", len(data), MaxFile)
		return nil
	}
	if line, column, what := badText(data); what != "" {
		p.problem(line, column, "%s", what)
		return nil
	}
	root, ok := p.read(string(data))
	if !ok {
		return nil
	}
	cfg := &Config{Version: 1}
	if root != nil {
		p.config(cfg, root)
	}
	return cfg
}

// badText finds the first place that can't be in a file for people.
func badText(data []byte) (line, column int, what string) {
	line, column = 1, 1
	blank := 0
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			return line, column, "this is not UTF-8"
		case r < ' ' && r != '\n' && r != '\t' && r != '\r', r == 0x7f:
			return line, column, fmt.Sprintf("the control character U+%04X is not allowed", r)
		case r == 0xfeff && i > 0:
			return line, column, "a byte order mark is allowed at the start only"
		case r == '\n':
			line, column = line+1, 0
			if blank++; blank > maxBlank {
				return line, 1, fmt.Sprintf("there are more than %d blank lines in a row", maxBlank)
			}
		case r != ' ' && r != '\t' && r != '\r':
			blank = 0
		}
		column++
		i += n
	}
	return 0, 0, ""
}

// read turns text into the node of its only document, nil if that is empty.
func (p *fileParser) read(text string) (root ast.Node, ok bool) {
	// The YAML library is not ours: should it panic on some input, then that
	// input is what is wrong, not the caller.
	defer func() {
		if r := recover(); r != nil {
			p.problem(0, 0, "the YAML can't be read: %v", r)
			root, ok = nil, false
		}
	}()
	text = strings.TrimPrefix(text, "\ufeff")
	tokens, ok := p.tokens(text)
	if !ok || !p.checkTokens(tokens) {
		return nil, false
	}
	// Repeated keys are found below, together with everything else.
	f, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		var se *yaml.SyntaxError
		if errors.As(err, &se) {
			p.atToken(se.Token, "the YAML can't be read: %s", se.Message)
		} else {
			p.problem(0, 0, "the YAML can't be read: %v", err)
		}
		return nil, false
	}
	for _, d := range f.Docs {
		if d.Body == nil || d.Body.Type() == ast.NullType {
			continue
		}
		if root != nil {
			p.at(d.Body, "a second document begins here; one file holds one")
			return nil, false
		}
		root = d.Body
	}
	return root, true
}

// tokens splits text, and stops where it gets too much.
func (p *fileParser) tokens(text string) (token.Tokens, bool) {
	var s scanner.Scanner
	s.Init(text)
	var all token.Tokens
	for {
		some, err := s.Scan()
		if errors.Is(err, io.EOF) {
			return all, true
		}
		all.Add(some...)
		if len(all) > maxTokens {
			p.atToken(all[maxTokens], "the file has more than %d elements", maxTokens)
			return nil, false
		}
	}
}

// checkTokens refuses what this file doesn't use and the library could be made to
// work hard for, before the tree is built.
func (p *fileParser) checkTokens(tokens token.Tokens) bool {
	var flow, anchors, aliases int
	var block []int // columns of the collections that are open
	for _, t := range tokens {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType, token.MappingValueType:
			if flow > 0 {
				break
			}
			column := t.Position.Column
			if t.Type == token.MappingValueType && t.Prev != nil && t.Prev.Position.Line == t.Position.Line {
				column = t.Prev.Position.Column
			}
			for len(block) > 0 && block[len(block)-1] >= column {
				block = block[:len(block)-1]
			}
			block = append(block, column)
		case token.AnchorType:
			anchors++
		case token.AliasType:
			aliases++
		case token.TagType:
			p.atToken(t, "tags are not supported; write the value without %q", t.Value)
			return false
		case token.DirectiveType:
			p.atToken(t, "directives are not supported; remove this line")
			return false
		}
		switch {
		case flow+len(block) > maxNesting:
			p.atToken(t, "this is nested more than %d levels deep", maxNesting)
			return false
		case anchors > maxAnchors:
			p.atToken(t, "there are more than %d anchors", maxAnchors)
			return false
		case aliases > maxAliases:
			p.atToken(t, "there are more than %d aliases", maxAliases)
			return false
		}
	}
	return true
}

// member is a key of a mapping that is known there, and what reads its value.
type member struct {
	name string
	read func(key, value ast.Node)
}

// value follows anchors and aliases to what they stand for. It returns nil after
// reporting a problem.
func (p *fileParser) value(n ast.Node) ast.Node {
	for range maxAliases {
		switch v := n.(type) {
		case *ast.AnchorNode:
			name := v.Name.GetToken().Value
			p.anchors[name] = v.Value
			n = v.Value
		case *ast.AliasNode:
			name := v.Value.GetToken().Value
			to, ok := p.anchors[name]
			if !ok {
				p.at(n, "the alias *%s has no anchor &%s before it", name, name)
				return nil
			}
			n = to
		case nil:
			return nil
		default:
			return n
		}
	}
	p.at(n, "this alias refers to itself")
	return nil
}

// mapping reads a mapping whose members are known. where is what it is, as in
// "a suite".
func (p *fileParser) mapping(n ast.Node, where string, members []member) {
	seen := map[string]*token.Token{}
	for _, kv := range p.pairs(n, where) {
		key, name := kv.key, kv.name
		if first := seen[name]; first != nil {
			p.at(key, "%q is here a second time; the first is in line %d", name, first.Position.Line)
			continue
		}
		seen[name] = key.GetToken()
		i := slices.IndexFunc(members, func(m member) bool { return m.name == name })
		if i < 0 {
			known := make([]string, len(members))
			for i, m := range members {
				known[i] = m.name
			}
			p.at(key, "unknown member %s in %s; known are %s", quote(name), where, strings.Join(known, ", "))
			continue
		}
		if v := p.value(kv.value); v != nil {
			members[i].read(key, v)
		}
	}
}

type pair struct {
	key   ast.Node
	name  string
	value ast.Node
}

// pairs returns the entries of a mapping in their order.
func (p *fileParser) pairs(n ast.Node, where string) []pair {
	var values []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	default:
		p.at(n, "%s must be a mapping of names to values, this is %s", where, describe(n))
		return nil
	}
	var ps []pair
	for _, v := range values {
		var key ast.Node = v.Key
		if k, ok := key.(*ast.MappingKeyNode); ok { // "? key"
			key = k.Value
		}
		if key == nil {
			p.at(v, "a member of %s has no name", where)
			continue
		}
		if key.Type() == ast.MergeKeyType {
			p.at(key, "merge keys (<<) are not supported; write the members out")
			continue
		}
		name, ok := scalar(key)
		if !ok {
			p.at(key, "the name of a member of %s must be a plain word, this is %s", where, describe(key))
			continue
		}
		ps = append(ps, pair{key, name, v.Value})
	}
	return ps
}

func (p *fileParser) config(cfg *Config, root ast.Node) {
	if root = p.value(root); root == nil {
		return
	}
	p.mapping(root, FileName, []member{
		{"version", func(_, v ast.Node) {
			if i, ok := v.(*ast.IntegerNode); !ok || i.Token.Value != "1" {
				p.at(v, "version must be the number 1, the only version there is, this is %s", describe(v))
			}
		}},
		{"target", func(_, v ast.Node) {
			s, ok := scalar(v)
			if !ok {
				p.at(v, "target must be the name of a branch, this is %s", describe(v))
			} else if why := badBranch(s); why != "" {
				p.at(v, "target must be the name of a branch: %s", why)
			}
			cfg.Target = s
		}},
		{"policy", func(_, v ast.Node) { p.policy(&cfg.Policy, v) }},
		{"suites", func(_, v ast.Node) {
			cfg.HasSuites = true
			cfg.Suites = p.suites(v)
		}},
	})
}

func (p *fileParser) policy(o *PolicyOverrides, n ast.Node) {
	if n.Type() == ast.NullType { // all members commented out
		return
	}
	members := make([]member, len(policyFlags))
	for i, f := range policyFlags {
		members[i] = member{f.name, func(_, v ast.Node) {
			b, ok := v.(*ast.BoolNode)
			switch {
			case !ok:
				p.at(v, "%s must be true or false, this is %s", f.name, describe(v))
			case b.Value:
				*f.field(o) = On
			default:
				*f.field(o) = Off
			}
		}}
	}
	p.mapping(n, "policy", members)
}

func (p *fileParser) suites(n ast.Node) []Suite {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		p.at(n, "suites must be a list, this is %s; write [] for no suites at all, or remove the member to have them detected", describe(n))
		return nil
	}
	if len(list.Values) > MaxSuites {
		p.at(list.Values[MaxSuites], "there are %d suites, more than the %d allowed", len(list.Values), MaxSuites)
		return nil
	}
	var suites []Suite
	lines := map[string]int{}
	for _, item := range list.Values {
		v := p.value(item)
		if v == nil {
			continue
		}
		s := p.suite(v, lines)
		suites = append(suites, s)
	}
	return suites
}

// suite reads one suite; lines remembers in which line each id is.
func (p *fileParser) suite(n ast.Node, lines map[string]int) Suite {
	s := Suite{Kind: KindOther, Blocking: true, Timeout: DefaultTimeout}
	before := len(p.problems)
	hasID, hasRun := false, false
	p.mapping(n, "a suite", []member{
		{"id", func(_, v ast.Node) {
			hasID = true
			id, ok := scalar(v)
			if !ok || !validID(id) {
				p.at(v, "id must be 1 to %d characters of a-z, 0-9, '.', '_' and '-' and begin with a letter or digit, this is %s", maxID, describe(v))
				return
			}
			if first, ok := lines[id]; ok {
				p.at(v, "the id %q is taken by the suite in line %d", id, first)
			} else {
				lines[id] = v.GetToken().Position.Line
			}
			s.ID = id
		}},
		{"run", func(_, v ast.Node) {
			hasRun = true
			s.Run = p.command(v)
		}},
		{"kind", func(_, v ast.Node) {
			k, _ := scalar(v)
			switch s.Kind = Kind(k); s.Kind {
			case KindTests, KindLint, KindOther:
			default:
				p.at(v, "kind must be tests, lint or other, this is %s", describe(v))
			}
		}},
		{"blocking", func(_, v ast.Node) {
			if b, ok := v.(*ast.BoolNode); ok {
				s.Blocking = b.Value
			} else {
				p.at(v, "blocking must be true or false, this is %s", describe(v))
			}
		}},
		{"timeout", func(_, v ast.Node) {
			d, ok := duration(v)
			switch {
			case !ok:
				p.at(v, "timeout must be a duration such as 90s, 10m or 1h30m, or a number of seconds, this is %s", describe(v))
			case d <= 0 || d > MaxTimeout:
				p.at(v, "timeout must be more than 0 and at most 24h, this is %s", describe(v))
			}
			s.Timeout = d
		}},
		{"env", func(_, v ast.Node) { s.Env = p.env(v) }},
	})
	if len(p.problems) > before {
		return s // what is missing may be one of the problems
	}
	if !hasID {
		p.at(n, "this suite has no id")
	}
	if !hasRun {
		p.at(n, "this suite has no run, the command it consists of")
	}
	return s
}

func (p *fileParser) command(n ast.Node) Command {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		line, ok := scalar(n)
		if !ok {
			p.at(n, "run must be a shell command or a list of strings, this is %s", describe(n))
		} else if why := badCommand(line); why != "" {
			p.at(n, "run %s", why)
		} else if strings.TrimSpace(line) == "" {
			p.at(n, "run is empty")
		}
		return Command{Shell: line}
	}
	if len(list.Values) == 0 {
		p.at(n, "run is empty")
		return Command{}
	}
	if len(list.Values) > maxArgs {
		p.at(list.Values[maxArgs], "run has more than %d elements", maxArgs)
		return Command{}
	}
	var args []string
	size := 0
	for i, item := range list.Values {
		v := p.value(item)
		if v == nil {
			return Command{}
		}
		arg, ok := scalar(v)
		size += len(arg)
		switch {
		case !ok:
			p.at(v, "run must be a list of strings, this element is %s", describe(v))
		case badCommand(arg) != "":
			p.at(v, "run %s", badCommand(arg))
		case i == 0 && arg == "":
			p.at(v, "run names no program")
		case size > maxCommand:
			p.at(v, "run has more than %d bytes", maxCommand)
			return Command{}
		}
		args = append(args, arg)
	}
	return Command{Args: args}
}

// badCommand says why a text can't be handed to a program, "" if it can.
func badCommand(s string) string {
	switch {
	case strings.ContainsRune(s, 0):
		return "holds a zero byte, which no program can be given"
	case len(s) > maxCommand:
		return fmt.Sprintf("has more than %d bytes", maxCommand)
	}
	return ""
}

func (p *fileParser) env(n ast.Node) map[string]string {
	if n.Type() == ast.NullType {
		return nil
	}
	env := map[string]string{}
	for _, kv := range p.pairs(n, "env") {
		key, name := kv.key, kv.name
		if !validEnv(name) {
			p.at(key, "the name of a variable must be letters, digits and '_' and not begin with a digit, this is %s", quote(name))
			continue
		}
		if reservedEnv(name) {
			p.at(key, "WRIT and names that begin with WRIT_ are set by writ itself")
			continue
		}
		if _, ok := env[name]; ok {
			p.at(key, "the variable %s is set twice", name)
			continue
		}
		v := p.value(kv.value)
		if v == nil {
			continue
		}
		text, ok := scalar(v)
		switch {
		case !ok:
			p.at(v, "the variable %s must be a string, this is %s; write \"\" for an empty one", name, describe(v))
		case badCommand(text) != "":
			p.at(v, "the variable %s %s", name, badCommand(text))
		}
		env[name] = text
		if len(env) > maxEnv {
			p.at(key, "env has more than %d variables", maxEnv)
			break
		}
	}
	if len(env) == 0 {
		return nil
	}
	return env
}

// scalar returns the text of a string, a number or a truth value as it was
// written: `run: true` means the command true.
func scalar(n ast.Node) (string, bool) {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value, true
	case *ast.LiteralNode:
		return v.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// describe names a value in an error.
func describe(n ast.Node) string {
	if text, ok := scalar(n); ok {
		return quote(text)
	}
	switch n.Type() {
	case ast.NullType:
		return "empty"
	case ast.SequenceType:
		return "a list"
	case ast.MappingType, ast.MappingValueType:
		return "a mapping"
	}
	return "something else"
}

// quote shows a text of the file, cut to a length that fits a line.
func quote(s string) string { return quoteUpTo(s, 40) }

func quoteUpTo(s string, most int) string {
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most]) + "…"
	}
	return strconv.Quote(s)
}

func duration(n ast.Node) (time.Duration, bool) {
	text, ok := scalar(n)
	if !ok {
		return 0, false
	}
	if _, ok := n.(*ast.IntegerNode); ok {
		s, err := strconv.ParseInt(text, 10, 32)
		return time.Duration(s) * time.Second, err == nil
	}
	d, err := time.ParseDuration(text)
	return d, err == nil
}

func validID(s string) bool {
	if s == "" || len(s) > maxID {
		return false
	}
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return true
}

func validEnv(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// reservedEnv reports whether a variable is writ's own to set.
func reservedEnv(name string) bool { return name == "WRIT" || strings.HasPrefix(name, "WRIT_") }

// badBranch says why a text can't be the short name of a branch, "" if it can
// (git check-ref-format).
func badBranch(s string) string {
	switch {
	case s == "":
		return "it is empty"
	case len(s) > 255:
		return "it is longer than 255 bytes"
	case strings.HasPrefix(s, "refs/"):
		return "write it without refs/heads/"
	case s[0] == '-' || s == "@" || strings.HasSuffix(s, "."),
		strings.Contains(s, "..") || strings.Contains(s, "@{"),
		strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune("~^:?*[\\", r) }):
		return quote(s) + " is none that Git allows"
	}
	for part := range strings.SplitSeq(s, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return quote(s) + " is none that Git allows"
		}
	}
	return ""
}
