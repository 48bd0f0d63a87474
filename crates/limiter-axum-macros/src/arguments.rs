//! What stands between the parentheses of the attribute.

use syn::parse::{Parse, ParseStream};
use syn::{Error, Ident, LitInt, LitStr, Result, Token};

/// The limit that the attribute asks for.
pub(crate) struct Arguments {
    pub(crate) plans: Vec<LitStr>,
    pub(crate) cost: u32,
    pub(crate) key: Option<LitStr>,
    pub(crate) refund_failures: bool,
}

const ALLOWED: &str = "write `plan = \"...\"`, `cost = N`, `key = \"...\"` or `refund_failures`";

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut arguments = Self {
            plans: Vec::new(),
            cost: 1,
            key: None,
            refund_failures: false,
        };
        let mut cost_given = false;
        while !input.is_empty() {
            let name: Ident = input.parse()?;
            match name.to_string().as_str() {
                "plan" => arguments.add_plan(value(input)?)?,
                "cost" if !cost_given => {
                    arguments.cost = cost(&value(input)?)?;
                    cost_given = true;
                }
                "key" if arguments.key.is_none() => arguments.key = Some(value(input)?),
                "refund_failures" if !arguments.refund_failures => {
                    arguments.refund_failures = true;
                }
                "cost" | "key" | "refund_failures" => {
                    return Err(Error::new(name.span(), format!("`{name}` is given twice")));
                }
                _ => {
                    return Err(Error::new(
                        name.span(),
                        format!("no `{name}` here: {ALLOWED}"),
                    ));
                }
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        if arguments.plans.is_empty() {
            return Err(input.error("no plan is named: write `plan = \"gold\"`"));
        }
        Ok(arguments)
    }
}

impl Arguments {
    fn add_plan(&mut self, plan: LitStr) -> Result<()> {
        let name = plan.value();
        if !is_plan_name(&name) {
            let message = "plan name is not allowed: a name is a letter, then up to 63 letters, digits, '.', '_' or '-'";
            return Err(Error::new(plan.span(), message));
        }
        if self
            .plans
            .iter()
            .any(|it| it.value().eq_ignore_ascii_case(&name))
        {
            return Err(Error::new(
                plan.span(),
                "plan is named twice: name each once",
            ));
        }
        self.plans.push(plan);
        Ok(())
    }
}

fn value<T: Parse>(input: ParseStream<'_>) -> Result<T> {
    input.parse::<Token![=]>()?;
    input.parse()
}

fn cost(literal: &LitInt) -> Result<u32> {
    match literal.base10_parse() {
        Ok(0) => Err(Error::new(
            literal.span(),
            "cost is 0: a request costs at least 1",
        )),
        other => other,
    }
}

/// Twin of `limiter_core::PlanName::new`.
fn is_plan_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        && name.len() <= 64
}
