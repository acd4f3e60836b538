package workitem

// Kinds of targets (section 5.3).
const (
	targetLocal     = "local"
	targetInventory = "inventory_alias"
)

// aliasFault says what keeps an opaque string from naming an entry of an
// inventory, or nothing: hosts, users, keys and URLs are no aliases.
func aliasFault(alias string) string {
	for i := 0; i < len(alias); i++ {
		switch alias[i] {
		case '/', '\\', '@', ':':
			return "must be a name of the inventory: no slash, backslash, @ or colon"
		}
	}
	return ""
}

// target reads a target policy. Its absence is the local target.
func (r *reader) target(field string, at int32) Target {
	t := Target{Kind: targetLocal, CapabilityLabels: none}
	var kind, alias, other, labels int32
	for c := r.members(field, at); c != 0; c = r.doc.values[c].next {
		switch name := r.doc.values[c].name; name {
		case "contract_version":
			r.version(field+".contract_version", c)
		case "kind":
			kind = c
		case "alias":
			alias = c
		case "target_alias":
			other = c
		case "capability_labels":
			labels = c
		default:
			r.unknown(field, name)
		}
	}
	if kind != 0 {
		switch v := &r.doc.values[kind]; {
		case v.kind == jsonString && v.text == targetLocal:
		case v.kind == jsonString && (v.text == targetInventory || v.text == "remote"):
			t.Kind = targetInventory
		default:
			r.refuse(field+".kind", "must be local or inventory_alias")
		}
	}
	name := r.firstSet(field+".alias", alias, other)
	switch {
	case name != "" && t.Kind == targetLocal:
		r.refuse(field+".alias", "must not be set for the local target")
	case name == "" && t.Kind == targetInventory:
		r.refuse(field+".alias", "must name an entry of the inventory")
	case name != "":
		if fault := aliasFault(name); fault != "" {
			r.refuse(field+".alias", fault)
		}
		t.Alias = &name
	}
	t.CapabilityLabels = r.bag(field+".capability_labels", labels)
	return t
}
