//! What a store's user may do: the rules that the READMEs of the stores publish, word by word.

/// What a limiter's user is granted in the READMEs of the stores.
pub const PERMISSIONS: &str =
    "-@all +evalsha +eval +hget +hmget +hset +hdel +del +pttl +pexpire +time +ping";

/// The same for sessions.
#[cfg(feature = "sessions")]
pub const SESSION_PERMISSIONS: &str = "-@all +evalsha +eval +hgetall +hmget +hset +set +del +pexpire +time +ping +zadd +zrem +zcard \
     +zrange +zrevrangebyscore +zremrangebyscore +zremrangebyrank +pfadd +pfcount +xadd +xrevrange \
     +info +scan";

/// Returns the ACL line of a user with the password `secret` and nothing but `permissions`, on keys like `keys`.
#[must_use]
pub fn acl_user(name: &str, keys: &str, permissions: &str) -> String {
    format!("{name} on >secret ~{keys} resetchannels {permissions}")
}
