//! A published crate holds all that it needs once it is taken out of this repository.

use std::{
    collections::BTreeSet,
    path::{Component, Path, PathBuf},
};

use proc_macro2::{Literal, TokenStream, TokenTree};

use crate::{
    problem::Problem,
    process::{cargo, read},
    rust_source::{RustSource, macro_call},
    workspace::{Package, Workspace},
};

/// Both licences ask to go along with every copy.
const REQUIRED: &[&str] = &["LICENSE-MIT", "LICENSE-APACHE"];

pub(crate) fn package(workspace: &Workspace) -> Result<(), Problem> {
    let mut findings = Vec::new();
    for package in workspace.published() {
        let mut command = cargo([
            "package",
            "--list",
            "--allow-dirty",
            "--package",
            &package.name,
        ]);
        let packaged: BTreeSet<PathBuf> = read(&mut command)?.lines().map(PathBuf::from).collect();
        let found = manifest_gaps(package)
            .into_iter()
            .chain(missing_files(&packaged))
            .chain(missing_includes(package.root(), &packaged)?);
        findings.extend(found.map(|finding| format!("{}: {finding}", package.name)));
    }
    Problem::unless_empty(findings)
}

fn manifest_gaps(package: &Package) -> Vec<String> {
    let mut gaps = Vec::new();
    if package.description.is_none() {
        gaps.push("no description".to_owned());
    }
    if package.license.is_none() {
        gaps.push("no license".to_owned());
    }
    for dependency in package.build_dependencies() {
        if dependency.path.is_some() && dependency.req == "*" {
            gaps.push(format!("dependency {} has no version", dependency.name));
        }
    }
    gaps
}

fn missing_files(packaged: &BTreeSet<PathBuf>) -> Vec<String> {
    let missing = |file: &&&str| !packaged.contains(Path::new(file));
    let finding = |file: &&str| format!("{file} is not in the package");
    REQUIRED.iter().filter(missing).map(finding).collect()
}

fn missing_includes(root: &Path, packaged: &BTreeSet<PathBuf>) -> Result<Vec<String>, Problem> {
    let mut findings = Vec::new();
    for file in packaged {
        if file.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        for include in includes(&RustSource::read(&root.join(file))?) {
            let reason = match included_file(file, &include) {
                Included::Generated => continue,
                Included::File(target) if packaged.contains(&target) => continue,
                Included::File(target) => format!("{} is not in the package", target.display()),
                Included::Outside => "leaves the package".to_owned(),
                Included::Unknown => "name the file by a plain string".to_owned(),
            };
            findings.push(format!("{}: {include}: {reason}", file.display()));
        }
    }
    Ok(findings)
}

/// The arguments of every `include_str!` and its kin.
fn includes(source: &RustSource) -> Vec<TokenStream> {
    let mut found = Vec::new();
    source.for_each_tail(|tail| {
        if let Some((name, [TokenTree::Group(arguments), ..])) = macro_call(tail)
            && matches!(name.as_str(), "include" | "include_str" | "include_bytes")
        {
            found.push(arguments.stream());
        }
    });
    found
}

#[derive(Debug, PartialEq, Eq)]
enum Included {
    /// A file at this path inside the package.
    File(PathBuf),
    /// Made by the build script.
    Generated,
    Outside,
    Unknown,
}

/// What `include_str!(arguments)` in `file` names; paths are relative to the package.
fn included_file(file: &Path, arguments: &TokenStream) -> Included {
    let tokens: Vec<TokenTree> = arguments.clone().into_iter().collect();
    if let [TokenTree::Literal(path)] = tokens.as_slice() {
        return inside(&file.with_file_name(unquoted(path)));
    }
    let Some(("concat", [TokenTree::Group(parts)])) = macro_call(&tokens)
        .as_ref()
        .map(|(name, rest)| (name.as_str(), *rest))
    else {
        return Included::Unknown;
    };
    let parts: Vec<TokenTree> = parts.stream().into_iter().collect();
    let Some((_, [TokenTree::Group(variable), _comma, TokenTree::Literal(path)])) =
        macro_call(&parts)
    else {
        return Included::Unknown;
    };
    match variable.stream().to_string().as_str() {
        r#""CARGO_MANIFEST_DIR""# => inside(Path::new(unquoted(path).trim_start_matches('/'))),
        r#""OUT_DIR""# => Included::Generated,
        _ => Included::Unknown,
    }
}

/// `path` without `.` and `..`, unless it climbs out of the package.
fn inside(path: &Path) -> Included {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::Normal(name) => clean.push(name),
            Component::ParentDir if clean.pop() => {}
            _ => return Included::Outside,
        }
    }
    Included::File(clean)
}

fn unquoted(literal: &Literal) -> String {
    let text = literal.to_string();
    text.trim_start_matches('r')
        .trim_matches('#')
        .trim_matches('"')
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(text: &str) -> Vec<Included> {
        let file = Path::new("src/script/mod.rs");
        let source = RustSource::new(file, text).unwrap();
        includes(&source)
            .iter()
            .map(|include| included_file(file, include))
            .collect()
    }

    fn file(path: &str) -> Vec<Included> {
        vec![Included::File(PathBuf::from(path))]
    }

    #[test]
    fn paths_are_relative_to_the_including_file() {
        assert_eq!(
            resolve(r#"const A: &str = include_str!("a.lua");"#),
            file("src/script/a.lua")
        );
        assert_eq!(
            resolve(r##"f(include_bytes!(r#"../../x/./b"#));"##),
            file("x/b")
        );
        assert_eq!(
            resolve(r#"#![doc = include_str!("../../README.md")]"#),
            file("README.md")
        );
    }

    #[test]
    fn paths_may_start_at_the_manifest() {
        let text = r#"include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/lua/a.lua"))"#;
        assert_eq!(resolve(text), file("lua/a.lua"));
        let text = r#"include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../a.lua"))"#;
        assert_eq!(resolve(text), [Included::Outside]);
        assert_eq!(
            resolve(r#"include!(concat!(env!("OUT_DIR"), "/a.rs"))"#),
            [Included::Generated]
        );
    }

    #[test]
    fn paths_that_leave_the_package_are_found() {
        assert_eq!(
            resolve(r#"include_str!("../../../README.md")"#),
            [Included::Outside]
        );
        assert_eq!(resolve(r#"include_str!("/etc/motd")"#), [Included::Outside]);
    }

    #[test]
    fn paths_that_cannot_be_told_are_found() {
        assert_eq!(resolve("include_str!($file)"), [Included::Unknown]);
        assert_eq!(
            resolve(r#"include_str!(concat!("a", "b"))"#),
            [Included::Unknown]
        );
    }

    #[test]
    fn comments_and_strings_are_not_code() {
        assert_eq!(resolve(r#"/// See include_str!("../../../x")."#), []);
        assert_eq!(
            resolve(r#"const A: &str = "include_str!(..)"; // include_str!(x)"#),
            []
        );
    }

    #[test]
    fn licences_are_required() {
        let packaged = BTreeSet::from([PathBuf::from("LICENSE-MIT"), PathBuf::from("src/lib.rs")]);
        assert_eq!(
            missing_files(&packaged),
            ["LICENSE-APACHE is not in the package"]
        );
    }
}
