//! Rust files as tokens, so that comments and strings are never taken for code.

use std::{
    fs,
    path::{Path, PathBuf},
};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use crate::problem::Problem;

/// One Rust file.
pub(crate) struct RustSource {
    pub(crate) path: PathBuf,
    tokens: TokenStream,
}

impl RustSource {
    pub(crate) fn read(path: &Path) -> Result<Self, Problem> {
        let unreadable = |reason: String| Problem::Unreadable {
            path: path.to_owned(),
            reason,
        };
        let text = fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
        Self::new(path, &text).map_err(|error| unreadable(error.to_string()))
    }

    pub(crate) fn new(path: &Path, text: &str) -> Result<Self, proc_macro2::LexError> {
        Ok(Self {
            path: path.to_owned(),
            tokens: text.parse()?,
        })
    }

    /// Calls `look` with every tail of every token sequence, so that it can match on what a tail starts with.
    pub(crate) fn for_each_tail(&self, mut look: impl FnMut(&[TokenTree])) {
        visit(self.tokens.clone(), &mut look);
    }
}

fn visit(tokens: TokenStream, look: &mut impl FnMut(&[TokenTree])) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut tail = tokens.as_slice();
    while let [first, rest @ ..] = tail {
        look(tail);
        if let TokenTree::Group(group) = first {
            visit(group.stream(), look);
        }
        tail = rest;
    }
}

/// `name!` at the start of `tail`, and what follows it.
pub(crate) fn macro_call(tail: &[TokenTree]) -> Option<(String, &[TokenTree])> {
    match tail {
        [TokenTree::Ident(name), TokenTree::Punct(mark), rest @ ..] if mark.as_char() == '!' => {
            Some((name.to_string(), rest))
        }
        _ => None,
    }
}

/// The inside of an attribute `#[...]` at the start of `tail`.
pub(crate) fn attribute(tail: &[TokenTree]) -> Option<&Group> {
    match tail {
        [TokenTree::Punct(hash), TokenTree::Group(group), ..]
            if hash.as_char() == '#' && group.delimiter() == Delimiter::Bracket =>
        {
            Some(group)
        }
        _ => None,
    }
}

/// Every Rust file under `folder`, in order.
pub(crate) fn rust_files(folder: &Path) -> Result<Vec<PathBuf>, Problem> {
    let unreadable = |error: std::io::Error| Problem::Unreadable {
        path: folder.to_owned(),
        reason: error.to_string(),
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let path = entry.path();
        if entry.file_type().map_err(unreadable)?.is_dir() {
            if entry.file_name() != "target" {
                files.extend(rust_files(&path)?);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
