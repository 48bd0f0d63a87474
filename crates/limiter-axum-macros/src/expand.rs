//! From a handler to a handler with a limit in its signature.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Error, FnArg, ItemFn, Pat, Result, parse_quote};

use crate::arguments::Arguments;

/// How the hidden parameters are called, so that a second attribute finds those of the first.
const HIDDEN: &str = "__rate_limit_";

pub(crate) fn expand(arguments: TokenStream, handler: TokenStream) -> Result<TokenStream> {
    let limit: Arguments = syn::parse2(arguments)?;
    let mut handler: ItemFn = syn::parse2(handler)?;
    if handler.sig.asyncness.is_none() {
        let message = "a handler is an `async fn`: put #[rate_limit] on one";
        return Err(Error::new_spanned(handler.sig.fn_token, message));
    }
    if let Some(receiver) = handler.sig.receiver() {
        let message = "#[rate_limit] goes on free functions: a method cannot be a handler with hidden parameters";
        return Err(Error::new_spanned(receiver, message));
    }
    let before = hidden_parameters(&handler);
    let marker = format_ident!("{HIDDEN}{}_{before}", handler.sig.ident);
    let parameter = format_ident!("{HIDDEN}{before}");
    handler.sig.inputs.insert(
        before,
        parse_quote!(#parameter: ::limiter_axum::Limited<#marker>),
    );
    let keep = quote!(let _ = #parameter;);
    handler.block.stmts.insert(0, syn::parse2(keep)?);

    let Arguments {
        plans,
        cost,
        key,
        refund_failures,
    } = limit;
    let key = key.map_or_else(
        || quote!(::core::option::Option::None),
        |key| quote!(::core::option::Option::Some(#key)),
    );
    let visibility = &handler.vis;
    Ok(quote! {
        #[doc(hidden)]
        #[allow(non_camel_case_types, missing_docs, unreachable_pub, reason = "made by #[rate_limit]")]
        #visibility struct #marker;

        impl ::limiter_axum::HandlerLimit for #marker {
            const PLANS: &'static [&'static str] = &[#(#plans),*];
            const COST: u32 = #cost;
            const KEY: ::core::option::Option<&'static str> = #key;
            const REFUND_FAILURES: bool = #refund_failures;
        }

        #handler
    })
}

/// Counts the parameters that attributes above this one put first.
fn hidden_parameters(handler: &ItemFn) -> usize {
    let is_hidden = |parameter: &&FnArg| match parameter {
        FnArg::Typed(typed) => match &*typed.pat {
            Pat::Ident(name) => name.ident.to_string().starts_with(HIDDEN),
            _ => false,
        },
        FnArg::Receiver(_) => false,
    };
    handler.sig.inputs.iter().take_while(is_hidden).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(arguments: TokenStream, handler: TokenStream) -> String {
        expand(arguments, handler).unwrap_err().to_string()
    }

    #[test]
    fn the_limit_becomes_the_first_parameter() {
        let expanded = expand(
            quote!(
                key = "user",
                plan = "gold",
                plan = "daily",
                cost = 5,
                refund_failures
            ),
            quote!(
                pub(crate) async fn search(body: String) -> String {
                    body
                }
            ),
        )
        .unwrap()
        .to_string();
        let squeezed: String = expanded.split_whitespace().collect();
        assert!(squeezed.contains(
            "search(__rate_limit_0:::limiter_axum::Limited<__rate_limit_search_0>,body:String)"
        ));
        assert!(squeezed.contains(r#"PLANS:&'static[&'staticstr]=&["gold","daily"]"#));
        assert!(squeezed.contains("COST:u32=5u32"));
        assert!(squeezed.contains(r#"Some("user")"#));
        assert!(squeezed.contains("REFUND_FAILURES:bool=true"));
    }

    #[test]
    fn a_second_attribute_comes_after_the_first() {
        let first = expand(
            quote!(plan = "a"),
            quote!(
                async fn f() {}
            ),
        )
        .unwrap();
        let file: syn::File = syn::parse2(first).unwrap();
        let handler = file.items.last().unwrap();
        let second = expand(quote!(plan = "b"), quote!(#handler)).unwrap();
        let squeezed: String = second.to_string().split_whitespace().collect();
        assert!(squeezed.contains("__rate_limit_0:::limiter_axum::Limited<__rate_limit_f_0>,__rate_limit_1:::limiter_axum::Limited<__rate_limit_f_1>"));
    }

    #[test]
    fn mistakes_are_found_when_compiling() {
        let handler = || {
            quote!(
                async fn f() {}
            )
        };
        for (arguments, message) in [
            (quote!(), "no plan is named"),
            (quote!(cost = 1), "no plan is named"),
            (quote!(plan = "9lives"), "plan name is not allowed"),
            (quote!(plan = "a", plan = "A"), "plan is named twice"),
            (quote!(plan = "a", cost = 0), "cost is 0"),
            (
                quote!(plan = "a", cost = 1, cost = 2),
                "`cost` is given twice",
            ),
            (
                quote!(plan = "a", key = "x", key = "y"),
                "`key` is given twice",
            ),
            (quote!(plan = "a", tokens = 1), "no `tokens` here"),
        ] {
            let told = error(arguments, handler());
            assert!(told.contains(message), "{told}");
        }
        assert!(
            error(
                quote!(plan = "a"),
                quote!(
                    fn f() {}
                )
            )
            .contains("async fn")
        );
        assert!(
            error(
                quote!(plan = "a"),
                quote!(
                    async fn f(&self) {}
                )
            )
            .contains("free functions")
        );
    }
}
