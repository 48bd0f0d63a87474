//! Key resolvers that need nothing but a request.

mod composite;
mod header;
mod principal;

pub use composite::CompositeKeyResolver;
pub use header::HeaderKeyResolver;
pub use principal::PrincipalKeyResolver;

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::Arc;

    use super::*;
    use crate::{InvalidKey, Key, KeyResolver, RequestSource, UnresolvedKey};

    #[derive(Default)]
    struct Request {
        headers: Vec<(&'static str, Vec<u8>)>,
        principal: Option<&'static str>,
    }

    impl RequestSource for Request {
        fn header(&self, name: &str, line: usize) -> Option<&[u8]> {
            let mut lines = self
                .headers
                .iter()
                .filter(|(known, _)| known.eq_ignore_ascii_case(name));
            lines.nth(line).map(|(_, value)| value.as_slice())
        }

        fn principal(&self) -> Option<&str> {
            self.principal
        }

        fn peer_ip(&self) -> Option<IpAddr> {
            None
        }

        fn route(&self) -> Option<&str> {
            None
        }
    }

    fn with_headers(headers: &[(&'static str, &str)]) -> Request {
        let headers = headers
            .iter()
            .map(|(name, value)| (*name, value.as_bytes().to_vec()))
            .collect();
        Request {
            headers,
            principal: None,
        }
    }

    fn header(name: &str) -> Arc<dyn KeyResolver> {
        Arc::new(HeaderKeyResolver::new(name).readable())
    }

    #[test]
    fn one_header_line_is_the_key_and_any_other_number_is_an_error() {
        let hashing = HeaderKeyResolver::new("x-api-key");
        let readable = hashing.clone().readable();
        for (resolver, key) in [
            (hashing, Key::of_secret("k1")),
            (readable, Key::new("k1").unwrap()),
        ] {
            let one = with_headers(&[("X-Api-Key", "k1")]);
            assert_eq!(resolver.resolve(&one), Ok(key.clone()));
            assert_eq!(resolver.key_of("k1"), Ok(key));
            let none = with_headers(&[("other", "k1")]);
            assert!(matches!(
                resolver.resolve(&none),
                Err(UnresolvedKey::Missing { .. })
            ));
            let two = with_headers(&[("x-api-key", "k1"), ("X-API-KEY", "k2")]);
            assert!(matches!(
                resolver.resolve(&two),
                Err(UnresolvedKey::Ambiguous { .. })
            ));
            assert_eq!(resolver.key_of(""), Err(InvalidKey::Empty));
        }
    }

    #[test]
    fn a_token_may_be_longer_than_a_key_and_a_readable_header_may_not() {
        let token = "t".repeat(4000);
        let request = with_headers(&[("authorization", &token)]);
        let hashing = HeaderKeyResolver::new("Authorization");
        assert_eq!(hashing.resolve(&request), Ok(Key::of_secret(&token)));
        assert!(matches!(
            hashing.readable().resolve(&request),
            Err(UnresolvedKey::Invalid {
                cause: InvalidKey::TooLong { len: 4000 },
                ..
            })
        ));
    }

    #[test]
    fn a_header_that_is_no_key_is_named() {
        let error = HeaderKeyResolver::new("x-api-key")
            .resolve(&with_headers(&[("x-api-key", "")]))
            .unwrap_err();
        assert_eq!(
            error,
            UnresolvedKey::Invalid {
                what: "header x-api-key".into(),
                cause: InvalidKey::Empty
            }
        );
        assert_eq!(
            error.to_string(),
            "header x-api-key makes no rate-limit key"
        );
    }

    #[test]
    fn the_principal_is_the_key_and_nobody_has_none() {
        let alice = Request {
            principal: Some("alice"),
            ..Request::default()
        };
        assert_eq!(
            PrincipalKeyResolver.resolve(&alice),
            Ok(Key::new("alice").unwrap())
        );
        let nobody = PrincipalKeyResolver
            .resolve(&Request::default())
            .unwrap_err();
        assert_eq!(
            nobody.to_string(),
            "request has no authenticated principal, which its rate limit goes by"
        );
    }

    #[test]
    fn joined_keys_of_different_parts_never_collide() {
        let both = CompositeKeyResolver::all_of([header("a"), header("b")]);
        let first = both
            .resolve(&with_headers(&[("a", "xy"), ("b", "z")]))
            .unwrap();
        let second = both
            .resolve(&with_headers(&[("a", "x"), ("b", "yz")]))
            .unwrap();
        assert_ne!(first, second);
        let long = "v".repeat(200);
        let too_long = both.resolve(&with_headers(&[("a", &long), ("b", &long)]));
        assert!(matches!(too_long, Err(UnresolvedKey::Invalid { .. })));
    }

    #[test]
    fn the_first_that_is_there_is_taken_and_told_apart_from_the_others() {
        let first =
            CompositeKeyResolver::first_of([Arc::new(PrincipalKeyResolver) as _, header("x-user")]);
        let by_name = first
            .resolve(&Request {
                principal: Some("alice"),
                ..Request::default()
            })
            .unwrap();
        let by_header = first
            .resolve(&with_headers(&[("x-user", "alice")]))
            .unwrap();
        assert_ne!(by_name, by_header);
        let neither = first.resolve(&Request::default()).unwrap_err();
        assert!(
            neither
                .to_string()
                .contains("authenticated principal or header x-user")
        );
    }

    #[test]
    fn operators_are_told_the_key_of_parts_that_are_joined() {
        let (principal, secret) = (Key::new("alice").unwrap(), Key::of_secret("k1"));
        let request = Request {
            principal: Some("alice"),
            ..with_headers(&[("x-api-key", "k1")])
        };
        let by_header = with_headers(&[("x-api-key", "k1")]);
        let parts = || -> [Arc<dyn KeyResolver>; 2] {
            let api_key = HeaderKeyResolver::new("x-api-key");
            [Arc::new(PrincipalKeyResolver), Arc::new(api_key)]
        };
        let first = CompositeKeyResolver::first_of(parts());
        for (nth, part, request) in [(0, &principal, &request), (1, &secret, &by_header)] {
            let told = CompositeKeyResolver::key_of_nth(nth, part).unwrap();
            assert_eq!(first.resolve(request), Ok(told));
        }
        let both = CompositeKeyResolver::all_of(parts());
        let told = CompositeKeyResolver::key_of_all(&[principal, secret]).unwrap();
        assert_eq!(both.resolve(&request), Ok(told));

        // What no request has a key for, nobody is told one for.
        let longest = Key::new([7; 255]).unwrap();
        let too_long = Err(InvalidKey::TooLong { len: 256 });
        assert_eq!(CompositeKeyResolver::key_of_nth(0, &longest), too_long);
        assert_eq!(CompositeKeyResolver::key_of_all(&[longest]), too_long);
        assert_eq!(
            CompositeKeyResolver::key_of_all(&[]),
            Err(InvalidKey::Empty)
        );
    }

    #[test]
    fn a_resolver_asks_for_what_it_goes_by() {
        let asked = |resolver: &dyn KeyResolver| {
            let challenges = resolver.challenges().into_iter();
            challenges.map(|it| it.to_string()).collect::<Vec<_>>()
        };
        let api_key = [r#"ApiKey header="x-api-key""#];
        assert_eq!(asked(&header("x-api-key")), api_key);
        assert_eq!(asked(&header("AUTHORIZATION")), ["Bearer"]);
        assert_eq!(asked(&PrincipalKeyResolver), ["Bearer"]);
        assert_eq!(asked(&header("x\r\nset-cookie")), [""; 0]);
        let parts = || {
            let principal: Arc<dyn KeyResolver> = Arc::new(PrincipalKeyResolver);
            [header("authorization"), header("x-api-key"), principal]
        };
        for joined in [
            CompositeKeyResolver::first_of(parts()),
            CompositeKeyResolver::all_of(parts()),
        ] {
            assert_eq!(asked(&joined), ["Bearer", api_key[0]]);
        }
    }

    #[test]
    fn a_shared_resolver_is_a_resolver() {
        let shared = header("x-api-key");
        let request = with_headers(&[("x-api-key", "k1")]);
        assert_eq!(
            KeyResolver::resolve(&shared, &request),
            Ok(Key::new("k1").unwrap())
        );
        assert!(request.part(std::any::TypeId::of::<()>()).is_none());
    }

    #[test]
    fn a_part_that_is_wrong_does_not_move_on_to_the_next() {
        let first = CompositeKeyResolver::first_of([header("a"), header("b")]);
        let two_lines = with_headers(&[("a", "1"), ("a", "2"), ("b", "3")]);
        assert!(matches!(
            first.resolve(&two_lines),
            Err(UnresolvedKey::Ambiguous { .. })
        ));
    }
}
