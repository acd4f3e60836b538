package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

func itoa(n int) string { return strconv.Itoa(n) }

var widths = map[string]int{
	"uint8": 1, "byte": 1, "uint16": 2, "uint32": 4, "uint64": 8, "Ref": 4, "Seconds": 8,
}

// loader collects declarations before they are resolved.
type loader struct {
	fset    *token.FileSet
	model   *model
	structs map[*record]*ast.StructType
	bitDefs map[*bitsType]string
	order   []string
}

// load reads the declarations of the package in dir.
func load(dir string) (*model, error) {
	l := &loader{
		fset:    token.NewFileSet(),
		model:   &model{arrays: map[string]int{}, checked: map[string]bool{}},
		structs: map[*record]*ast.StructType{},
		bitDefs: map[*bitsType]string{},
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []*ast.File
	for _, e := range entries {
		name := e.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || name == codeFile {
			continue
		}
		f, err := parser.ParseFile(l.fset, filepath.Join(dir, name), nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	// Types first: constants and fields refer to them.
	for _, step := range []func(ast.Decl) error{l.types, l.constants} {
		for _, f := range files {
			for _, d := range f.Decls {
				if err := step(d); err != nil {
					return nil, err
				}
			}
		}
	}
	if err := l.resolve(); err != nil {
		return nil, err
	}
	return l.model, nil
}

func (l *loader) errorf(pos token.Pos, format string, args ...any) error {
	return fmt.Errorf("%s: %s", l.fset.Position(pos), fmt.Sprintf(format, args...))
}

// directives gives the bindb directives of a comment by verb.
func directives(cg *ast.CommentGroup) map[string][]string {
	d := map[string][]string{}
	if cg == nil {
		return d
	}
	for _, c := range cg.List {
		if text, ok := strings.CutPrefix(c.Text, "//bindb:"); ok {
			verb, rest, _ := strings.Cut(text, " ")
			d[verb] = append(d[verb], strings.TrimSpace(rest))
		}
	}
	return d
}

func attributes(text string) directive {
	d := directive{}
	for _, part := range strings.Fields(text) {
		k, v, _ := strings.Cut(part, "=")
		d[k] = v
	}
	return d
}

func (l *loader) types(d ast.Decl) error {
	if fn, ok := d.(*ast.FuncDecl); ok {
		if star, ok := receiver(fn); ok && fn.Name.Name == "Check" {
			l.model.checked[star] = true
		}
		return nil
	}
	gen, ok := d.(*ast.GenDecl)
	if !ok || gen.Tok != token.TYPE {
		return nil
	}
	for _, spec := range gen.Specs {
		ts := spec.(*ast.TypeSpec)
		doc := ts.Doc
		if doc == nil {
			doc = gen.Doc
		}
		if err := l.typ(ts, doc); err != nil {
			return err
		}
	}
	return nil
}

func receiver(fn *ast.FuncDecl) (string, bool) {
	if fn.Recv == nil || len(fn.Recv.List) != 1 {
		return "", false
	}
	star, ok := fn.Recv.List[0].Type.(*ast.StarExpr)
	if !ok {
		return "", false
	}
	id, ok := star.X.(*ast.Ident)
	if !ok {
		return "", false
	}
	return id.Name, true
}

func (l *loader) typ(ts *ast.TypeSpec, doc *ast.CommentGroup) error {
	name := ts.Name.Name
	verbs := directives(doc)
	text := prose(doc.Text())
	for _, o := range verbs["order"] {
		l.order = append(l.order, strings.Fields(o)...)
	}
	if rec := verbs["record"]; rec != nil {
		st, ok := ts.Type.(*ast.StructType)
		if !ok {
			return l.errorf(ts.Pos(), "%s is declared as a record but is no struct", name)
		}
		attrs := attributes(rec[0])
		size, err := strconv.Atoi(attrs["size"])
		if err != nil {
			return l.errorf(ts.Pos(), "%s has no size", name)
		}
		r := &record{goName: name, size: size, doc: text, attrs: attrs}
		for _, c := range verbs["chain"] {
			r.chains = append(r.chains, attributes(c))
		}
		l.model.records = append(l.model.records, r)
		l.structs[r] = st
		return nil
	}
	if arr, ok := ts.Type.(*ast.ArrayType); ok {
		if n, ok := arr.Len.(*ast.BasicLit); ok {
			l.model.arrays[name], _ = strconv.Atoi(n.Value)
		}
		return nil
	}
	id, ok := ts.Type.(*ast.Ident)
	if !ok {
		return nil
	}
	if b, ok := verbs["bits"]; ok {
		t := &bitsType{goName: name, width: widths[id.Name], doc: text}
		l.model.bits = append(l.model.bits, t)
		l.bitDefs[t] = b[0]
	}
	if e, ok := verbs["enum"]; ok {
		l.model.enums = append(l.model.enums, &enum{goName: name, width: widths[id.Name], open: e[0] == "open", doc: text})
	}
	return nil
}

func (l *loader) constants(d ast.Decl) error {
	gen, ok := d.(*ast.GenDecl)
	if !ok {
		return nil
	}
	if gen.Tok == token.VAR {
		return l.payloadTable(gen)
	}
	if gen.Tok != token.CONST {
		return nil
	}
	for _, spec := range gen.Specs {
		vs := spec.(*ast.ValueSpec)
		id, ok := vs.Type.(*ast.Ident)
		if !ok || len(vs.Names) != 1 || len(vs.Values) != 1 {
			continue
		}
		e := l.model.enum(id.Name)
		if e == nil {
			continue
		}
		lit, ok := vs.Values[0].(*ast.BasicLit)
		if !ok || vs.Comment == nil {
			return l.errorf(vs.Pos(), "%s needs a literal value and a comment with its name", vs.Names[0].Name)
		}
		v, err := strconv.ParseUint(lit.Value, 0, 8*e.width)
		if err != nil {
			return l.errorf(vs.Pos(), "%s: %v", vs.Names[0].Name, err)
		}
		wire, doc, _ := strings.Cut(prose(vs.Comment.Text()), ":")
		e.values = append(e.values, enumValue{goName: vs.Names[0].Name, value: v, name: wire, doc: strings.TrimSpace(doc)})
	}
	return nil
}

// payloadTable reads the composite literal of the payload files.
func (l *loader) payloadTable(gen *ast.GenDecl) error {
	vs := gen.Specs[0].(*ast.ValueSpec)
	if vs.Names[0].Name != "payloadFiles" {
		return nil
	}
	for _, e := range vs.Values[0].(*ast.CompositeLit).Elts {
		elts := e.(*ast.CompositeLit).Elts
		str := func(i int) string {
			s, _ := strconv.Unquote(elts[i].(*ast.BasicLit).Value)
			return s
		}
		root := strings.ToLower(strings.TrimPrefix(elts[2].(*ast.Ident).Name, "Root"))
		l.model.payloads = append(l.model.payloads, payload{str(0), str(1), root, str(3), str(4)})
	}
	return nil
}

func (m *model) enum(name string) *enum {
	for _, e := range m.enums {
		if e.goName == name {
			return e
		}
	}
	return nil
}

func (m *model) bitsType(name string) *bitsType {
	for _, b := range m.bits {
		if b.goName == name {
			return b
		}
	}
	return nil
}

func (l *loader) resolve() error {
	for _, t := range l.model.bits {
		if err := l.resolveBits(t); err != nil {
			return err
		}
	}
	for _, r := range l.model.records {
		if err := l.resolveRecord(r); err != nil {
			return err
		}
	}
	return l.layouts()
}

func (l *loader) resolveBits(t *bitsType) error {
	var seen uint64
	for _, def := range strings.Fields(l.bitDefs[t]) {
		name, pos, ok := strings.Cut(def, "=")
		if !ok {
			return fmt.Errorf("%s: bit %q has no position", t.goName, def)
		}
		pos, enumName, _ := strings.Cut(pos, ":")
		lo, hi, ok := strings.Cut(pos, "..")
		if !ok {
			hi = lo
		}
		b := bit{name: name, goName: camel(name)}
		var err1, err2 error
		b.lo, err1 = strconv.Atoi(lo)
		b.hi, err2 = strconv.Atoi(hi)
		if err1 != nil || err2 != nil || b.lo > b.hi || b.hi >= 8*t.width || seen&b.mask() != 0 {
			return fmt.Errorf("%s: bits %q are malformed, out of range or taken", t.goName, def)
		}
		seen |= b.mask()
		if enumName != "" {
			if b.enum = l.model.enum(enumName); b.enum == nil {
				return fmt.Errorf("%s: no enumeration %s", t.goName, enumName)
			}
			for _, v := range b.enum.values {
				if v.value >= 1<<(b.hi-b.lo+1) {
					return fmt.Errorf("%s: %s does not fit bits %s", t.goName, v.goName, def)
				}
			}
		}
		t.bits = append(t.bits, b)
	}
	return nil
}

func (l *loader) resolveRecord(r *record) error {
	offset := 0
	for _, af := range l.structs[r].Fields.List {
		if len(af.Names) != 1 || af.Tag == nil || af.Comment == nil {
			return l.errorf(af.Pos(), "%s: each field needs one name, a tag and a comment", r.goName)
		}
		raw, err := strconv.Unquote(af.Tag.Value)
		if err != nil {
			return err
		}
		tag := reflect.StructTag(raw)
		f := &field{
			name: tag.Get("bin"), target: tag.Get("target"), show: tag.Get("show"),
			doc: prose(af.Comment.Text()), offset: offset,
		}
		if n := af.Names[0].Name; n != "_" {
			f.goName = n
		}
		if f.name == "" {
			return l.errorf(af.Pos(), "%s: field without a bin tag", r.goName)
		}
		if err := l.resolveType(f, af.Type); err != nil {
			return l.errorf(af.Pos(), "%s.%s: %v", r.goName, f.name, err)
		}
		offset += f.width
		r.fields = append(r.fields, f)
	}
	if offset != r.size {
		return l.errorf(l.structs[r].Pos(), "%s: the fields take %d bytes, the format says %d", r.goName, offset, r.size)
	}
	return nil
}

func (l *loader) resolveType(f *field, typ ast.Expr) error {
	switch t := typ.(type) {
	case *ast.Ident:
		f.goType = t.Name
		if w, ok := widths[t.Name]; ok {
			f.width = w
		} else if n, ok := l.model.arrays[t.Name]; ok {
			f.width, f.array = n, true
		} else if f.enum = l.model.enum(t.Name); f.enum != nil {
			f.width = f.enum.width
		} else if f.bits = l.model.bitsType(t.Name); f.bits != nil {
			f.width = f.bits.width
		}
	case *ast.ArrayType:
		f.array = true
		switch n := t.Len.(type) {
		case *ast.BasicLit:
			f.width, _ = strconv.Atoi(n.Value)
		case *ast.Ident:
			for _, r := range l.model.records {
				if r.goName+"Size" == n.Name {
					f.width = r.size
				}
			}
		}
	}
	if f.width == 0 {
		return fmt.Errorf("unknown type")
	}
	return nil
}

// layouts lists each record in each of its files, in inventory order.
func (l *loader) layouts() error {
	byFile := map[string][]*layout{}
	add := func(y *layout) { byFile[y.file] = append(byFile[y.file], y) }
	for _, r := range l.model.records {
		names := make([]string, len(r.fields))
		for i, f := range r.fields {
			names[i] = f.name
		}
		if r.attrs["kind"] != "chain" {
			a := r.attrs
			add(&layout{
				varName: "layout" + r.goName, name: a["name"], file: a["file"], root: a["root"], family: a["family"],
				kind: a["kind"], con: a["const"], doc: r.doc, record: r, names: names,
			})
			continue
		}
		for _, c := range r.chains {
			names := strings.Split(c["fields"], ",")
			if len(names) != len(r.fields) {
				return fmt.Errorf("%s: %d field names for %d fields", c["file"], len(names), len(r.fields))
			}
			add(&layout{
				varName: "layout" + strings.TrimSuffix(c["name"], "Record"), name: c["name"], file: c["file"],
				root: "authority", family: "workflow", kind: "chain", con: c["const"],
				doc:    fmt.Sprintf("%s of %s for each record of %s.", strings.TrimSuffix(r.goName, "Chain")+" chain", c["member"], c["owner"]),
				record: r, names: names, chain: c,
			})
		}
	}
	for _, file := range l.order {
		ys := byFile[file]
		if ys == nil {
			return fmt.Errorf("bindb:order names %s, which no record declares", file)
		}
		l.model.layouts = append(l.model.layouts, ys...)
		delete(byFile, file)
	}
	if len(byFile) != 0 {
		var rest []string
		for f := range byFile {
			rest = append(rest, f)
		}
		slices.Sort(rest)
		return fmt.Errorf("bindb:order lacks %s", strings.Join(rest, ", "))
	}
	return nil
}
