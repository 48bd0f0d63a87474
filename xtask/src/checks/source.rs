//! No test is ignored, nothing is left to do, nothing is unsafe. Holds where a lint could be switched off, too.

use proc_macro2::{Group, TokenTree};

use crate::{
    problem::Problem,
    rust_source::{RustSource, attribute, macro_call, rust_files},
    workspace::Workspace,
};

pub(crate) fn source(workspace: &Workspace) -> Result<(), Problem> {
    let mut findings = Vec::new();
    for package in workspace.members() {
        for file in rust_files(package.root())? {
            findings.extend(leftovers(&RustSource::read(&file)?));
        }
    }
    Problem::unless_empty(findings)
}

fn leftovers(source: &RustSource) -> Vec<String> {
    let mut found = Vec::new();
    source.for_each_tail(|tail| {
        if let (Some(what), [first, ..]) = (leftover(tail), tail) {
            let line = first.span().start().line;
            found.push(format!("{}:{line}: {what}", source.path.display()));
        }
    });
    found
}

fn leftover(tail: &[TokenTree]) -> Option<&'static str> {
    if let Some((name, _)) = macro_call(tail) {
        return match name.as_str() {
            "todo" => Some("todo!"),
            "unimplemented" => Some("unimplemented!"),
            "dbg" => Some("dbg!"),
            _ => None,
        };
    }
    if attribute(tail).is_some_and(ignores_a_test) {
        return Some("#[ignore]");
    }
    match tail {
        [TokenTree::Ident(word), ..] if word == "unsafe" => Some("unsafe"),
        _ => None,
    }
}

fn ignores_a_test(attribute: &Group) -> bool {
    let words: Vec<String> = flat_words(attribute);
    match words.as_slice() {
        [first, ..] if first == "ignore" => true,
        [first, rest @ ..] if first == "cfg_attr" => rest.iter().any(|word| word == "ignore"),
        _ => false,
    }
}

fn flat_words(group: &Group) -> Vec<String> {
    let words = group.stream().into_iter().flat_map(|token| match token {
        TokenTree::Ident(word) => vec![word.to_string()],
        TokenTree::Group(inner) => flat_words(&inner),
        TokenTree::Punct(_) | TokenTree::Literal(_) => Vec::new(),
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn found(text: &str) -> Vec<String> {
        leftovers(&RustSource::new(Path::new("a.rs"), text).unwrap())
    }

    #[test]
    fn leftovers_are_found_with_their_line() {
        assert_eq!(found("fn f() {\n    todo!()\n}"), ["a.rs:2: todo!"]);
        assert_eq!(
            found("fn f() { g(unimplemented!(\"x\"), dbg!(1)) }").len(),
            2
        );
        assert_eq!(
            found("#[test]\n#[ignore = \"slow\"]\nfn f() {}"),
            ["a.rs:2: #[ignore]"]
        );
        assert_eq!(
            found("#[cfg_attr(unix, ignore)] fn f() {}"),
            ["a.rs:1: #[ignore]"]
        );
        assert_eq!(
            found("macro_rules! m { () => { unsafe { } } }"),
            ["a.rs:1: unsafe"]
        );
    }

    #[test]
    fn words_in_comments_strings_and_names_are_not() {
        for text in [
            "// todo!() unsafe",
            "/// Never `unsafe`, no #[ignore].\nfn f() {}",
            "const A: &str = \"unsafe todo!()\";",
            "#![forbid(unsafe_code)]",
            "fn todo() { ignore() }",
        ] {
            assert_eq!(found(text), Vec::<String>::new(), "{text}");
        }
    }
}
