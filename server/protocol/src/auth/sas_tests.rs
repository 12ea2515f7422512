//! SAS vectors: made by unmodified client libraries, compared by field and by signature.

use super::*;
use crate::testing::request;

struct Vector {
    title: &'static str,
    service: ServiceKind,
    account: &'static str,
    path: &'static str,
    signed: &'static str,
    token: &'static str,
}

const fn vector(
    title: &'static str,
    service: ServiceKind,
    account: &'static str,
    path: &'static str,
    signed: &'static str,
    token: &'static str,
) -> Vector {
    Vector {
        title,
        service,
        account,
        path,
        signed,
        token,
    }
}

#[rustfmt::skip]
const VECTORS: &[Vector] = &[
    vector("JavaScript: account 2018-11-09", ServiceKind::Blob, "myaccount", "cont",
        "myaccount\nrwdlacup\nbtq\nsco\n2024-03-01T00:00:00Z\n2024-03-02T00:00:00Z\n10.0.0.1-10.0.0.9\nhttps,http\n2018-11-09\n",
        "sv=2018-11-09&ss=btq&srt=sco&spr=https%2Chttp&st=2024-03-01T00%3A00%3A00Z&se=2024-03-02T00%3A00%3A00Z&sip=10.0.0.1-10.0.0.9&sp=rwdlacup&sig=V3dzpiIy8aqIbt2NI%2FwCrFwEcPUqYHgf6xAfaJ5fuvY%3D"),
    vector("JavaScript: account 2019-02-02", ServiceKind::Blob, "myaccount", "cont",
        "myaccount\nrwdlacup\nbtq\nsco\n2024-03-01T00:00:00Z\n2024-03-02T00:00:00Z\n10.0.0.1-10.0.0.9\nhttps,http\n2019-02-02\n",
        "sv=2019-02-02&ss=btq&srt=sco&spr=https%2Chttp&st=2024-03-01T00%3A00%3A00Z&se=2024-03-02T00%3A00%3A00Z&sip=10.0.0.1-10.0.0.9&sp=rwdlacup&sig=2mIgsv%2BOsK6S6MYRRDM%2BGAvevCUSgOgkLew6cfNYKGc%3D"),
    vector("JavaScript: account 2020-12-06", ServiceKind::Blob, "myaccount", "cont",
        "myaccount\nrwdlacup\nbtq\nsco\n2024-03-01T00:00:00Z\n2024-03-02T00:00:00Z\n10.0.0.1-10.0.0.9\nhttps,http\n2020-12-06\n\n",
        "sv=2020-12-06&ss=btq&srt=sco&spr=https%2Chttp&st=2024-03-01T00%3A00%3A00Z&se=2024-03-02T00%3A00%3A00Z&sip=10.0.0.1-10.0.0.9&sp=rwdlacup&sig=t1S%2FFUhYZgOYzJQ7T54JsP9GW38ThKUuSH87dNc%2BLko%3D"),
    vector("JavaScript: blob 2015-04-05", ServiceKind::Blob, "myaccount", "cont/dir/a%20b%2Bc.txt",
        "r\n2024-03-01T00:00:00Z\n2024-03-02T00:00:00Z\n/blob/myaccount/cont/dir/a b+c.txt\n\n\n\n2015-04-05\n\n\n\n\ntext/plain",
        "sv=2015-04-05&st=2024-03-01T00%3A00%3A00Z&se=2024-03-02T00%3A00%3A00Z&sr=b&sp=r&rsct=text%2Fplain&sig=eLsZV58H1gyhg08TNypsm3PO0FxNX6%2BVuKlU0cXP%2Fsg%3D"),
    vector("JavaScript: blob 2018-11-09", ServiceKind::Blob, "myaccount", "cont/dir/a%20b%2Bc.txt",
        "r\n2024-03-01T00:00:00Z\n2024-03-02T00:00:00Z\n/blob/myaccount/cont/dir/a b+c.txt\n\n\n\n2018-11-09\nb\n\n\n\n\n\ntext/plain",
        "sv=2018-11-09&st=2024-03-01T00%3A00%3A00Z&se=2024-03-02T00%3A00%3A00Z&sr=b&sp=r&rsct=text%2Fplain&sig=rTmvWTPbYY4vOFd5Bb7sP7gXOvQoERHqey0RB6hReBs%3D"),
    vector("JavaScript: blob 2020-12-06", ServiceKind::Blob, "myaccount", "cont/dir/a%20b%2Bc.txt",
        "r\n2024-03-01T00:00:00Z\n2024-03-02T00:00:00Z\n/blob/myaccount/cont/dir/a b+c.txt\n\n\n\n2020-12-06\nb\n\n\n\n\n\n\ntext/plain",
        "sv=2020-12-06&st=2024-03-01T00%3A00%3A00Z&se=2024-03-02T00%3A00%3A00Z&sr=b&sp=r&rsct=text%2Fplain&sig=1MN%2FKGEgssXzRtwTCBL1F%2FvGKoUzrtWEhgcmb2%2B59js%3D"),
    vector("JavaScript: blob 2026-04-06", ServiceKind::Blob, "myaccount", "cont/dir/a%20b%2Bc.txt",
        "r\n2024-03-01T00:00:00Z\n2024-03-02T00:00:00Z\n/blob/myaccount/cont/dir/a b+c.txt\n\n\n\n2026-04-06\nb\n\n\n\n\n\n\ntext/plain",
        "sv=2026-04-06&st=2024-03-01T00%3A00%3A00Z&se=2024-03-02T00%3A00%3A00Z&sr=b&sp=r&rsct=text%2Fplain&sig=V8wJjo4xxZBHyjwVdHt3QIJtZk%2Fw31CvW5o3nQNWtPo%3D"),
    vector("JavaScript: container si 2020-12-06", ServiceKind::Blob, "myaccount", "cont",
        "\n\n\n/blob/myaccount/cont\npol1\n\n\n2020-12-06\nc\n\n\n\n\n\n\n",
        "sv=2020-12-06&si=pol1&sr=c&sig=SZulkBa5B4JelpkC%2BIO56MGOvNcCDlf%2FJRxD3p25a48%3D"),
    vector("JavaScript: queue 2018-03-28", ServiceKind::Queue, "myaccount", "queue1",
        "raup\n2024-03-01T00:00:00Z\n2024-03-02T00:00:00Z\n/queue/myaccount/queue1\n\n\nhttps,http\n2018-03-28",
        "sv=2018-03-28&spr=https%2Chttp&st=2024-03-01T00%3A00%3A00Z&se=2024-03-02T00%3A00%3A00Z&sp=raup&sig=tPrwSumKG1k97%2FZRUctWfhlEFhxTTMusPtQz1QxSi3I%3D"),
    vector("JavaScript: queue 2026-04-06", ServiceKind::Queue, "myaccount", "queue1",
        "raup\n2024-03-01T00:00:00Z\n2024-03-02T00:00:00Z\n/queue/myaccount/queue1\n\n\nhttps,http\n2026-04-06",
        "sv=2026-04-06&spr=https%2Chttp&st=2024-03-01T00%3A00%3A00Z&se=2024-03-02T00%3A00%3A00Z&sp=raup&sig=Nu2SdZvbK0ChqwBCASrIlJmscpD2K9qsE3QTVrxEVs8%3D"),
    vector("JavaScript: UD-1: UD blob 2018-11-09", ServiceKind::Blob, "myaccount", "cont/b.txt",
        "r\n2024-03-01T00:00:00Z\n2024-03-02T00:00:00Z\n/blob/myaccount/cont/b.txt\naaaaaaaa-0000-0000-0000-000000000001\nbbbbbbbb-0000-0000-0000-000000000002\n2024-03-01T00:00:00Z\n2024-03-05T00:00:00Z\nb\n2018-11-09\n\n\n2018-11-09\nb\n\n\n\n\n\n",
        "sv=2018-11-09&st=2024-03-01T00%3A00%3A00Z&se=2024-03-02T00%3A00%3A00Z&skoid=aaaaaaaa-0000-0000-0000-000000000001&sktid=bbbbbbbb-0000-0000-0000-000000000002&skt=2024-03-01T00%3A00%3A00Z&ske=2024-03-05T00%3A00%3A00Z&sks=b&skv=2018-11-09&sr=b&sp=r&sig=Rc0iXAx8N5m9z1aHMc8P2cI%2FQj32IKiKnTWoiVDemDc%3D"),
    vector("JavaScript: UD-2: UD blob 2020-02-10", ServiceKind::Blob, "myaccount", "cont/b.txt",
        "r\n2024-03-01T00:00:00Z\n2024-03-02T00:00:00Z\n/blob/myaccount/cont/b.txt\naaaaaaaa-0000-0000-0000-000000000001\nbbbbbbbb-0000-0000-0000-000000000002\n2024-03-01T00:00:00Z\n2024-03-05T00:00:00Z\nb\n2020-02-10\n\n\n\n\n\n2020-02-10\nb\n\n\n\n\n\n",
        "sv=2020-02-10&st=2024-03-01T00%3A00%3A00Z&se=2024-03-02T00%3A00%3A00Z&skoid=aaaaaaaa-0000-0000-0000-000000000001&sktid=bbbbbbbb-0000-0000-0000-000000000002&skt=2024-03-01T00%3A00%3A00Z&ske=2024-03-05T00%3A00%3A00Z&sks=b&skv=2020-02-10&sr=b&sp=r&sig=leaXTm4Nffu78n%2F%2FGjoXOPmj9XLSWgG79kjyRmqr%2FeI%3D"),
    vector("JavaScript: UD-3: UD blob 2020-12-06", ServiceKind::Blob, "myaccount", "cont/b.txt",
        "r\n2024-03-01T00:00:00Z\n2024-03-02T00:00:00Z\n/blob/myaccount/cont/b.txt\naaaaaaaa-0000-0000-0000-000000000001\nbbbbbbbb-0000-0000-0000-000000000002\n2024-03-01T00:00:00Z\n2024-03-05T00:00:00Z\nb\n2020-12-06\n\n\n\n\n\n2020-12-06\nb\n\n\n\n\n\n\n",
        "sv=2020-12-06&st=2024-03-01T00%3A00%3A00Z&se=2024-03-02T00%3A00%3A00Z&skoid=aaaaaaaa-0000-0000-0000-000000000001&sktid=bbbbbbbb-0000-0000-0000-000000000002&skt=2024-03-01T00%3A00%3A00Z&ske=2024-03-05T00%3A00%3A00Z&sks=b&skv=2020-12-06&sr=b&sp=r&sig=jv4ZdaPA1%2FNCy2aX4SeY8UrBixskBgiAjbw%2B2j3eVHM%3D"),
    vector("JavaScript: UD-4: UD blob 2025-07-05", ServiceKind::Blob, "myaccount", "cont/b.txt",
        "r\n2024-03-01T00:00:00Z\n2024-03-02T00:00:00Z\n/blob/myaccount/cont/b.txt\naaaaaaaa-0000-0000-0000-000000000001\nbbbbbbbb-0000-0000-0000-000000000002\n2024-03-01T00:00:00Z\n2024-03-05T00:00:00Z\nb\n2025-07-05\n\n\n\n\n\n\n\n2025-07-05\nb\n\n\n\n\n\n\n",
        "sv=2025-07-05&st=2024-03-01T00%3A00%3A00Z&se=2024-03-02T00%3A00%3A00Z&skoid=aaaaaaaa-0000-0000-0000-000000000001&sktid=bbbbbbbb-0000-0000-0000-000000000002&skt=2024-03-01T00%3A00%3A00Z&ske=2024-03-05T00%3A00%3A00Z&sks=b&skv=2025-07-05&sr=b&sp=r&sig=QZuc%2FGsKvaEn%2F3V6cG1vpdrjhiH%2FVzgOfodqoS9Yv9o%3D"),
    vector("JavaScript: UD-5: UD blob 2026-04-06", ServiceKind::Blob, "myaccount", "cont/b.txt",
        "r\n2024-03-01T00:00:00Z\n2024-03-02T00:00:00Z\n/blob/myaccount/cont/b.txt\naaaaaaaa-0000-0000-0000-000000000001\nbbbbbbbb-0000-0000-0000-000000000002\n2024-03-01T00:00:00Z\n2024-03-05T00:00:00Z\nb\n2026-04-06\n\n\n\n\n\n\n\n2026-04-06\nb\n\n\n\n\n\n\n\n\n",
        "sv=2026-04-06&st=2024-03-01T00%3A00%3A00Z&se=2024-03-02T00%3A00%3A00Z&skoid=aaaaaaaa-0000-0000-0000-000000000001&sktid=bbbbbbbb-0000-0000-0000-000000000002&skt=2024-03-01T00%3A00%3A00Z&ske=2024-03-05T00%3A00%3A00Z&sks=b&skv=2026-04-06&sr=b&sp=r&sig=gBeGACbF8Kl89zGxm1PU0fCm%2B5I2G1JqHa9k84owzC8%3D"),
    vector("JavaScript: UD-6: UD blob 2026-04-06 + headers", ServiceKind::Blob, "myaccount", "cont/b.txt",
        "r\n\n2024-03-02T00:00:00Z\n/blob/myaccount/cont/b.txt\naaaaaaaa-0000-0000-0000-000000000001\nbbbbbbbb-0000-0000-0000-000000000002\n2024-03-01T00:00:00Z\n2024-03-05T00:00:00Z\nb\n2026-04-06\n\n\n\ndddddddd-0000-0000-0000-000000000004\ncccccccc-0000-0000-0000-000000000003\n\n\n2026-04-06\nb\n\nes\nx-ms-foo:bar\n\n\nq1:v1\n\n\n\n\n",
        "sv=2026-04-06&se=2024-03-02T00%3A00%3A00Z&ses=es&skoid=aaaaaaaa-0000-0000-0000-000000000001&sktid=bbbbbbbb-0000-0000-0000-000000000002&skt=2024-03-01T00%3A00%3A00Z&ske=2024-03-05T00%3A00%3A00Z&sks=b&skv=2026-04-06&sr=b&sp=r&sduoid=cccccccc-0000-0000-0000-000000000003&skdutid=dddddddd-0000-0000-0000-000000000004&srh=x-ms-foo&srq=q1&sig=iADj1smPXXw0bfrTgPMDFn2qc%2F4Q6%2FOxH11A1%2BYozV8%3D"),
    vector("JavaScript: UD queue 2025-07-05", ServiceKind::Queue, "myaccount", "queue1",
        "raup\n2024-03-01T00:00:00Z\n2024-03-02T00:00:00Z\n/queue/myaccount/queue1\naaaaaaaa-0000-0000-0000-000000000001\nbbbbbbbb-0000-0000-0000-000000000002\n2024-03-01T00:00:00Z\n2024-03-05T00:00:00Z\nq\n2025-07-05\n\n\n\n\n2025-07-05",
        "sv=2025-07-05&st=2024-03-01T00%3A00%3A00Z&se=2024-03-02T00%3A00%3A00Z&sr=q&sp=raup&sig=4VaN3CbRHuG3ReFOGhRUcOJcwqjj4fRhc5nn%2Fi%2B72mA%3D&skoid=aaaaaaaa-0000-0000-0000-000000000001&sktid=bbbbbbbb-0000-0000-0000-000000000002&skt=2024-03-01T00%3A00%3A00Z&ske=2024-03-05T00%3A00%3A00Z&sks=q&skv=2025-07-05"),
    vector("JavaScript: table service SAS with key range", ServiceKind::Table, "myaccount", "MyTable",
        "raud\n2024-03-01T00:00:00Z\n2024-03-02T00:00:00Z\n/table/myaccount/mytable\n\n\n\n2019-02-02\na\n1\nm\n9",
        "sv=2019-02-02&st=2024-03-01T00%3A00%3A00Z&se=2024-03-02T00%3A00%3A00Z&sp=raud&sig=IaiCxXfNsscJcsdc1d6c%2BCSYrCVxVZ%2B5anEEUUSES9w%3D&tn=MyTable&srk=1&spk=a&epk=m&erk=9"),
    vector("JavaScript: table-only account SAS", ServiceKind::Table, "myaccount", "MyTable",
        "myaccount\nrla\nt\nso\n2024-03-01T00:00:00Z\n2024-03-02T00:00:00Z\n\n\n2019-02-02\n",
        "sv=2019-02-02&ss=t&srt=so&st=2024-03-01T00%3A00%3A00Z&se=2024-03-02T00%3A00%3A00Z&sp=rla&sig=1Z5Cx9Fi1Se9TgXQwj0voAFGHmvnPvt%2FZ5Evv%2Fw3mhc%3D"),
    vector("Python: account", ServiceKind::Blob, "myaccount", "cont",
        "myaccount\nrwdlacup\nbqt\nsco\n2024-03-01T00:00:00Z\n2024-03-02T00:00:00Z\n10.0.0.1-10.0.0.9\nhttps,http\n2026-10-06\nscope1\n",
        "st=2024-03-01T00%3A00%3A00Z&se=2024-03-02T00%3A00%3A00Z&sp=rwdlacup&sip=10.0.0.1-10.0.0.9&spr=https%2Chttp&sv=2026-10-06&ss=bqt&srt=sco&ses=scope1&sig=8JpnO5TlGpVdOs8QrPQ0g8PAemRLajQK0s7JAqCDbi4%3D"),
    vector("Python: queue", ServiceKind::Queue, "devstoreaccount1", "queue1",
        "raup\n\n2024-03-02T00:00:00Z\n/queue/devstoreaccount1/queue1\n\n\n\n2026-10-06",
        "se=2024-03-02T00%3A00%3A00Z&sp=raup&sv=2026-10-06&sig=iPEMub0v6S7rP%2BLPizMP0Erpub4Z/micFQUSi5A6064%3D"),
    vector("Python: queue si", ServiceKind::Queue, "myaccount", "queue1",
        "\n\n\n/queue/myaccount/queue1\npol1\n\n\n2026-10-06",
        "sv=2026-10-06&si=pol1&sig=0C1IX4fp5rAjZsesTFjITfdzZJ/DgqjHqodIAo33HDY%3D"),
    vector("Python: blob", ServiceKind::Blob, "myaccount", "cont/dir/a%20b%2Bc.txt",
        "r\n\n2024-03-02T00:00:00Z\n/blob/myaccount/cont/dir/a b+c.txt\n\n\n\n2026-10-06\nb\n\n\n\n\n\n\ntext/plain",
        "se=2024-03-02T00%3A00%3A00Z&sp=r&sv=2026-10-06&sr=b&rsct=text/plain&sig=oZcLg9RH0rb2Pnq/2fFXsNPmo2%2ByChaOuuj3KfYnolI%3D"),
    vector("Python: table", ServiceKind::Table, "myaccount", "MyTable",
        "raud\n\n2024-03-02T00:00:00Z\n/table/myaccount/mytable\n\n\n\n2019-02-02\na\n1\nm\n9",
        "se=2024-03-02T00%3A00%3A00Z&sp=raud&sv=2019-02-02&tn=MyTable&spk=a&srk=1&epk=m&erk=9&sig=I/k6rb7dL7EBat0mT3NU19JGyBJSzNE0u1zSFdRtEeU%3D"),
    vector("Python: table account", ServiceKind::Table, "myaccount", "MyTable",
        "myaccount\nrwdlau\nt\nsco\n\n2024-03-02T00:00:00Z\n\n\n2019-02-02\n",
        "se=2024-03-02T00%3A00%3A00Z&sp=rwdlau&sv=2019-02-02&ss=t&srt=sco&sig=/P/2oqATJxq2nhzJHngbAm3NwcdmSn7lJxNH5n%2BpNMo%3D"),
];

/// The value of the user delegation key in the vectors: the bytes 0 to 31.
fn delegation_key() -> Vec<u8> {
    (0..32).collect()
}

/// The parameter that marks a path of one segment as a container. Without it, the path is a blob of
/// the root container.
fn of_container(vector: &Vector) -> &'static str {
    if vector.service == ServiceKind::Blob && !vector.path.contains('/') {
        "&restype=container"
    } else {
        ""
    }
}

#[test]
fn every_token_of_the_client_libraries_verifies() {
    for vector in VECTORS {
        let context = request(
            vector.service,
            "GET",
            &format!("/{}?{}{}", vector.path, vector.token, of_container(vector)),
            vector.account,
            &[("x-ms-foo", "bar")],
        );
        let context = with_signed_query(context);
        let sas = Sas::parse(&context).unwrap().unwrap();
        assert_eq!(
            sas.string_to_sign(&context, &Names::of(&context).unwrap()),
            vector.signed,
            "{}",
            vector.title
        );
        let keys = match sas.kind {
            Kind::UserDelegation => vec![delegation_key()],
            _ => crate::testing::accounts().keys(vector.account).to_vec(),
        };
        assert!(
            signature_is_good(&keys, vector.signed.as_bytes(), &sas.field("sig")),
            "{}",
            vector.title
        );
        assert!(
            !signature_is_good(&[vec![0]], vector.signed.as_bytes(), &sas.field("sig")),
            "{}",
            vector.title
        );
    }
}

/// Adds the query parameter that the vector UD-6 signs. It is in the request but not in the token.
fn with_signed_query(mut context: Context) -> Context {
    if context.query.has("srq") {
        let raw: Vec<_> = context
            .query
            .pairs()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        context.query = Query::parse(&format!("{}&q1=v1", raw.join("&"))).unwrap();
    }
    context
}

/// Applies `change` to the queue SAS of the vectors and verifies it at `now`.
fn check(
    change: impl Fn(String) -> String,
    now: &str,
    policy: Option<&StoredPolicy>,
) -> Result<Grant> {
    let token = VECTORS
        .iter()
        .find(|vector| vector.title == "JavaScript: queue 2018-03-28")
        .unwrap()
        .token
        .to_owned();
    let mut context = request(
        ServiceKind::Queue,
        "GET",
        &format!("/queue1?{}", change(token)),
        "myaccount",
        &[],
    );
    context.sas_now = date::parse_iso8601(now).unwrap();
    let sas = Sas::parse(&context)?.unwrap();
    sas.verify(
        &context,
        &crate::testing::accounts().keys("myaccount"),
        policy,
        None,
    )
}

fn detail(failure: Failure) -> String {
    failure
        .into_content()
        .details
        .into_iter()
        .find(|(name, _)| *name == "AuthenticationErrorDetail")
        .map(|(_, text)| text)
        .unwrap()
}

#[test]
fn a_sas_is_good_from_its_start_to_just_before_its_expiry() {
    let at = |now: &str| check(|token| token, now, None);
    assert!(
        detail(at("2024-02-29T23:59:59Z").unwrap_err())
            .starts_with("Signature not valid in the specified time frame")
    );
    assert_eq!(at("2024-03-01T00:00:00Z").unwrap().permissions, "raup");
    assert!(at("2024-03-01T23:59:59.9999999Z").is_ok());
    assert!(at("2024-03-02T00:00:00Z").is_err());
}

#[test]
fn any_change_to_a_signed_field_breaks_the_signature() {
    for (from, to) in [
        ("sp=raup", "sp=raupd"),
        ("se=2024", "se=2025"),
        ("https%2Chttp", "https"),
        ("sig=t", "sig=u"),
    ] {
        let failure =
            check(|token| token.replace(from, to), "2024-03-01T12:00Z", None).unwrap_err();
        assert_eq!(failure.code, "AuthenticationFailed", "{from}");
        assert!(
            detail(failure).starts_with("Signature did not match"),
            "{from}"
        );
    }
}

#[test]
fn a_policy_adds_fields_that_the_sas_leaves_out_and_contradicts_none() {
    let vector = VECTORS
        .iter()
        .find(|vector| vector.title == "Python: queue si")
        .unwrap();
    let verify = |policy: Option<&StoredPolicy>| {
        let mut context = request(
            ServiceKind::Queue,
            "GET",
            &format!("/queue1?{}", vector.token),
            "myaccount",
            &[],
        );
        context.sas_now = date::parse_iso8601("2024-03-01T12:00Z").unwrap();
        let sas = Sas::parse(&context)?.unwrap();
        sas.verify(
            &context,
            &crate::testing::accounts().keys("myaccount"),
            policy,
            None,
        )
    };
    let full = StoredPolicy {
        id: "policy".to_owned(),
        start: None,
        expiry: date::parse_iso8601("2024-03-02"),
        permission: Some("r".to_owned()),
    };
    assert_eq!(verify(Some(&full)).unwrap().permissions, "r");
    assert_eq!(
        detail(verify(None).unwrap_err()),
        "The stored access policy that si names does not exist."
    );
    let endless = StoredPolicy {
        expiry: None,
        ..full
    };
    assert_eq!(
        detail(verify(Some(&endless)).unwrap_err()),
        "se is mandatory. Cannot be empty"
    );
}

/// Verifies, at noon, a user delegation SAS for a queue. `change` edits its token before the token
/// is signed with a delegation key of this account.
fn delegated(change: impl Fn(&str) -> String, bearer: Option<&Bearer>) -> Result<Grant> {
    let token = "sv=2025-07-05&st=2024-03-01T00%3A00%3A00Z&se=2024-03-02T00%3A00%3A00Z&sp=raup&sr=q&skoid=o&sktid=t\
                 &skt=2024-03-01T00%3A00%3A00Z&ske=2024-03-05T00%3A00%3A00Z&sks=q&skv=2025-07-05";
    let target = format!("/queue1?{}&sig=", change(token));
    let mut context = request(ServiceKind::Queue, "GET", &target, "myaccount", &[]);
    context.sas_now = date::parse_iso8601("2024-03-01T12:00Z").unwrap();
    let accounts = crate::testing::accounts();
    let keys = &*accounts.keys("myaccount");
    let signature = {
        let sas = Sas::parse(&context)?.unwrap();
        let text = sas.string_to_sign(&context, &Names::of(&context).unwrap());
        crate::auth::signature::sign(&sas.delegation_key().value(&keys[0]), text.as_bytes())
    };
    let signed = format!("{}&sig={}", change(token), signature.replace('+', "%2B"));
    context.query = Query::parse(&signed).unwrap();
    Sas::parse(&context)?
        .unwrap()
        .verify(&context, keys, None, bearer)
}

#[test]
fn a_user_delegation_sas_lives_within_its_key_and_serves_its_service() {
    let change = |from: &'static str, to: &'static str| move |token: &str| token.replace(from, to);
    assert_eq!(delegated(str::to_owned, None).unwrap().permissions, "raup");
    // The SAS may expire after its key: clients compute both expiries from the current time, and
    // that of the SAS second.
    assert!(delegated(change("se=2024-03-02", "se=2024-03-06"), None).is_ok());
    for (from, to, part) in [
        ("skt=2024-03-01", "skt=2024-03-02", "time frame"),
        ("ske=2024-03-05", "ske=2024-03-01", "time frame"),
        ("sks=q", "sks=b", "sks"),
        ("sks=q", "sks=", "sks"),
        ("skt=2024-03-01T00%3A00%3A00Z", "skt=", "skt is mandatory"),
        ("sv=2025-07-05", "sv=2024-11-04", "2025-07-05"),
        ("sr=q", "si=policy", "stored access policy"),
    ] {
        let found = detail(delegated(change(from, to), None).unwrap_err());
        assert!(found.contains(part), "{to}: {found}");
    }
}

#[test]
fn a_sas_for_one_user_needs_a_token_of_that_user() {
    let for_one = |token: &str| format!("{token}&sduoid=user&skdutid=home");
    let bearer = |object: &str, tenant: &str| Bearer {
        groups: Vec::new(),
        is_data_owner: false,
        object_id: object.to_owned(),
        tenant_id: tenant.to_owned(),
    };
    assert!(delegated(for_one, Some(&bearer("user", "home"))).is_ok());
    for other in [
        None,
        Some(bearer("other", "home")),
        Some(bearer("user", "away")),
    ] {
        let found = detail(delegated(for_one, other.as_ref()).unwrap_err());
        assert!(found.contains("no bearer token of that user"), "{found}");
    }
}

#[test]
fn a_sas_serves_the_blob_the_snapshot_or_the_version_that_it_names() {
    let fits = |sr: &str, version: &str, target: &str| {
        let target = format!("{target}sv={version}&sr={sr}&sp=r&sig=AAAA");
        let context = request(ServiceKind::Blob, "GET", &target, "myaccount", &[]);
        let sas = Sas::parse(&context).unwrap().unwrap();
        let names = Names::of(&context).unwrap();
        sas.check_resource(&context, &names).is_ok()
    };
    let (new, old) = ("2020-12-06", "2018-03-28");
    let (blob, container) = ("/cont/b?", "/cont?restype=container&");
    let snapshot = "/cont/b?snapshot=2024-03-01T00:00:00.0000000Z&";
    let version = "/cont/b?versionid=2024-03-01T00:00:00.0000000Z&";
    for (sr, served) in [("b", blob), ("bs", snapshot), ("bv", version)] {
        for target in [blob, snapshot, version, container] {
            assert_eq!(fits(sr, new, target), target == served, "{sr} {target}");
        }
    }
    for target in [blob, snapshot, version, container] {
        assert!(fits("c", new, target), "{target}");
    }
    assert!(fits("b", old, blob) && fits("b", old, snapshot));
    assert!(!fits("b", old, container) && !fits("bs", old, snapshot));
}

#[test]
fn a_sas_for_one_blob_cannot_be_made_one_for_a_directory() {
    let title = "JavaScript: blob 2015-04-05";
    let vector = VECTORS.iter().find(|vector| vector.title == title).unwrap();
    let verify = |path: &str, token: String| {
        let target = format!("/{path}?{token}");
        let mut context = request(ServiceKind::Blob, "GET", &target, "myaccount", &[]);
        context.sas_now = date::parse_iso8601("2024-03-01T12:00Z").unwrap();
        let sas = Sas::parse(&context)?.unwrap();
        let accounts = crate::testing::accounts();
        sas.verify(&context, &accounts.keys("myaccount"), None, None)
    };
    assert!(verify(vector.path, vector.token.to_owned()).is_ok());
    let directory = vector.token.replace("sr=b", "sr=d&sdd=2");
    let below = format!("{}/secret", vector.path);
    assert_eq!(
        verify(&below, directory).unwrap_err().code,
        "AuthenticationFailed"
    );
    let nothing = vector.token.replace("sr=b&", "");
    let failure = verify(vector.path, nothing).unwrap_err();
    assert_eq!(detail(failure), "sr is mandatory. Cannot be empty");
}

fn parsed(query: &str) -> Result<Kind> {
    let target = format!("/cont/b?{query}&sig=AAAA");
    let context = request(ServiceKind::Blob, "GET", &target, "myaccount", &[]);
    Sas::parse(&context).map(|sas| sas.unwrap().kind)
}

#[test]
fn a_parameter_that_is_given_twice_is_refused() {
    let once = "sv=2022-11-02&sr=b&sp=r&se=2024-03-02";
    assert_eq!(parsed(once).unwrap(), Kind::Service);
    assert!(parsed(&format!("{once}&snapshot=1&snapshot=1")).is_ok());
    for again in [
        "sp=rw",
        "SP=r",
        "se=2024-03-02",
        "sv=2020-12-06",
        "sig=BBBB",
    ] {
        let failure = parsed(&format!("{once}&{again}")).unwrap_err();
        assert_eq!(failure.code, "AuthenticationFailed", "{again}");
        assert!(detail(failure).contains("more than once"), "{again}");
    }
    // A parameter that a SAS covers by name may occur only once, too.
    let covered = format!("{once}&srq=versionid,comp&versionid=1&comp=tags");
    assert!(parsed(&covered).is_ok());
    let failure = parsed(&format!("{covered}&comp=list")).unwrap_err();
    assert!(detail(failure).contains("comp is given more than once"));
}

#[test]
fn names_of_signed_headers_and_parameters_are_lists_without_repetition() {
    let with = |list: &str| parsed(&format!("sv=2022-11-02&sr=b&sp=r&se=2024-03-02&{list}"));
    assert!(with("srh=a,b-c_1.$&srq=a").is_ok());
    let many = |list: &str, count: usize| {
        let names: Vec<_> = (0..count).map(|number| format!("n{number}")).collect();
        with(&format!("{list}={}", names.join(",")))
    };
    for list in ["srh", "srq"] {
        assert!(many(list, SIGNED_NAMES_MAX).is_ok());
        for (refused, reason) in [
            (many(list, SIGNED_NAMES_MAX + 1), "has more than"),
            (with(&format!("{list}=a,b,A")), "a name more than once"),
            (with(&format!("{list}=a:b")), "is not a list of names"),
        ] {
            let text = detail(refused.unwrap_err());
            assert!(text.contains(list) && text.contains(reason), "{text}");
        }
    }
}

#[test]
fn one_parameter_of_an_account_sas_makes_a_token_one() {
    for own in ["ss=b", "srt=o", "ss=b&srt=o"] {
        let token = format!("sv=2022-11-02&{own}&sr=b&sp=r&se=2024-03-02");
        assert_eq!(parsed(&token).unwrap(), Kind::Account, "{own}");
    }
}

#[test]
fn an_account_sas_of_a_version_before_there_was_any_is_refused() {
    let account = |version: &str| parsed(&format!("sv={version}&ss=b&srt=o&sp=r&se=2024-03-02"));
    assert_eq!(account("2015-04-05").unwrap(), Kind::Account);
    let failure = account("2015-02-21").unwrap_err();
    assert_eq!(
        (failure.status.as_u16(), &*failure.code),
        (403, "AuthenticationFailed")
    );
    assert_eq!(
        parsed("sv=2015-02-21&sr=b&sp=r&se=2024-03-02").unwrap(),
        Kind::Service
    );
}

#[test]
fn a_sas_for_a_name_with_a_backslash_may_be_signed_with_a_slash() {
    let accounts = crate::testing::accounts();
    let keys = &*accounts.keys("myaccount");
    let good = |signed: &str, sent: &str| {
        let text = format!(
            "r\n\n2024-03-02T00:00:00Z\n/blob/myaccount/cont/{signed}\n\n\n\n2020-12-06\nb\n\n\n\n\n\n\n"
        );
        let signature = crate::auth::signature::sign(&keys[0], text.as_bytes()).replace('+', "%2B");
        let target = format!(
            "/cont/{sent}?sv=2020-12-06&sr=b&sp=r&se=2024-03-02T00%3A00%3A00Z&sig={signature}"
        );
        let context = request(ServiceKind::Blob, "GET", &target, "myaccount", &[]);
        let sas = Sas::parse(&context).unwrap().unwrap();
        sas.verify(&context, keys, None, None).is_ok()
    };
    assert!(good("dir/name", "dir%5Cname"));
    assert!(good("dir\\name", "dir%5Cname"));
    assert!(good("dir/name", "dir/name"));
    assert!(!good("dir\\name", "dir/name"));
}

/// Signs `token` for `signed`, and verifies it in a request for `sent` that `arrive` completes.
fn verified(
    service: ServiceKind,
    (signed, sent): (&str, &str),
    token: &str,
    arrive: impl Fn(&mut Context),
) -> Result<Grant> {
    let accounts = crate::testing::accounts();
    let keys = &*accounts.keys("myaccount");
    let at = |target: &str, signature: &str| {
        let separator = if target.contains('?') { '&' } else { '?' };
        let target = format!("{target}{separator}{token}&sig={signature}");
        let mut context = request(service, "GET", &target, "myaccount", &[]);
        context.sas_now = date::parse_iso8601("2024-03-01T12:00Z").unwrap();
        arrive(&mut context);
        context
    };
    let context = at(signed, "AAAA");
    let sas = Sas::parse(&context)?.unwrap();
    let text = sas.string_to_sign(&context, &Names::of(&context)?);
    let key = match sas.kind {
        Kind::UserDelegation => sas.delegation_key().value(&keys[0]),
        Kind::Account | Kind::Service => keys[0].clone(),
    };
    let signature = crate::auth::signature::sign(&key, text.as_bytes());
    let context = at(sent, &signature.replace('+', "%2B"));
    Sas::parse(&context)?
        .unwrap()
        .verify(&context, keys, None, None)
}

const QUEUE_TOKEN: &str = "sv=2020-12-06&sp=r&se=2024-03-02";

#[test]
fn a_sas_is_good_for_the_addresses_that_it_names() {
    let from = |peer: &str, range: &str| {
        let token = format!("{QUEUE_TOKEN}&sip={range}");
        verified(
            ServiceKind::Queue,
            ("/queue1", "/queue1"),
            &token,
            |context| {
                context.peer = format!("{peer}:50000").parse().unwrap();
            },
        )
    };
    for range in [
        "10.0.0.5",
        "10.0.0.5-10.0.0.9",
        "10.0.0.1-10.0.0.5",
        "10.0.0.5-10.0.0.5",
    ] {
        assert!(from("10.0.0.5", range).is_ok(), "{range}");
        assert!(from("[::ffff:10.0.0.5]", range).is_ok(), "{range}");
        assert!(from("[::1]", range).is_err(), "{range}");
    }
    for range in ["10.0.0.4", "10.0.0.1-10.0.0.4", "10.0.0.6-10.0.0.9"] {
        let failure = from("10.0.0.5", range).unwrap_err();
        assert_eq!(failure.code, "AuthorizationSourceIPMismatch", "{range}");
    }
    let failure = from("10.0.0.5", "10.0.0").unwrap_err();
    assert_eq!(failure.code, "AuthenticationFailed");
}

#[test]
fn a_sas_for_https_is_refused_over_http() {
    let over = |secure: bool, protocol: &str| {
        let token = format!("{QUEUE_TOKEN}&spr={protocol}");
        let sas = verified(
            ServiceKind::Queue,
            ("/queue1", "/queue1"),
            &token,
            |context| {
                context.secure = secure;
            },
        );
        sas.map_or_else(|failure| failure.code.to_string(), |_| String::new())
    };
    for protocol in ["https,http", "http,https"] {
        assert_eq!(
            (over(false, protocol), over(true, protocol)),
            Default::default()
        );
    }
    assert_eq!(over(true, "https"), "");
    assert_eq!(over(false, "https"), "AuthorizationProtocolMismatch");
    assert_eq!(over(true, "ftp"), "AuthenticationFailed");
}

#[test]
fn an_accounts_longest_life_holds_for_every_sas_without_a_stored_expiry() {
    let is_short = |token: &str| {
        let target = format!("/queue1?sv=2020-12-06&{token}&sig=AAAA");
        let context = request(ServiceKind::Queue, "GET", &target, "myaccount", &[]);
        let sas = Sas::parse(&context).unwrap().unwrap();
        assert!(sas.check_life(None).is_ok());
        sas.check_life(Some(Duration::from_secs(3600))).is_ok()
    };
    assert!(is_short("st=2024-03-01T00:00Z&se=2024-03-01T01:00Z"));
    assert!(!is_short("st=2024-03-01T00:00Z&se=2024-03-01T01:00:01Z"));
    assert!(!is_short("se=2024-03-01T01:00Z") && !is_short("st=2024-03-01T00:00Z"));
    assert!(is_short("si=policy") && is_short("si=policy&st=2024-03-01"));
    assert!(!is_short("si=policy&se=2024-03-02"));
    assert!(!is_short("ss=q&si=policy&st=2024-03-01"));
}

#[test]
fn a_policy_and_its_sas_never_both_set_a_time() {
    let policy = StoredPolicy {
        id: "policy".to_owned(),
        start: None,
        expiry: date::parse_iso8601("2024-03-02"),
        permission: None,
    };
    let target = "/queue1?sv=2020-12-06&sp=r&si=policy&se=2024-03-02&sig=AAAA";
    let context = request(ServiceKind::Queue, "GET", target, "myaccount", &[]);
    let sas = Sas::parse(&context).unwrap().unwrap();
    let failure = sas.either_time("se", policy.expiry).unwrap_err();
    assert!(detail(failure).contains("se is given both"));
    assert!(sas.either_time("se", None).unwrap().is_some());
    assert_eq!(sas.either_time("st", policy.expiry).unwrap(), policy.expiry);
}

#[test]
fn a_request_without_a_signature_has_no_sas() {
    let context = request(
        ServiceKind::Queue,
        "GET",
        "/queue1?sv=2020-12-06&sp=r",
        "myaccount",
        &[],
    );
    assert!(Sas::parse(&context).unwrap().is_none());
}

#[test]
fn no_parameter_of_a_sas_has_a_control_character() {
    for (value, is_refused) in [("r%0A", true), ("r%C2%85", true), ("r%C3%A9", false)] {
        let with = |token: String| parsed(&token);
        let signed = with(format!("sv=2022-11-02&sr=b&se=2024-03-02&sp={value}"));
        let named = with(format!(
            "sv=2022-11-02&sr=b&sp=r&se=2024-03-02&srq=q&q={value}"
        ));
        let other = with(format!("sv=2022-11-02&sr=b&sp=r&se=2024-03-02&q={value}"));
        assert!(other.is_ok(), "{value}");
        for result in [signed, named] {
            assert_eq!(result.is_err(), is_refused, "{value}");
            if let Err(failure) = result {
                assert!(detail(failure).contains("control character"));
            }
        }
    }
}

#[test]
fn a_sas_for_a_directory_covers_what_is_in_it_and_its_listing() {
    let token = "sv=2020-12-06&sr=d&sdd=2&sp=r&se=2024-03-02";
    let good = |sent: &str| {
        let signed = "/cont/dir/sub/file";
        verified(ServiceKind::Blob, (signed, sent), token, |_| {}).is_ok()
    };
    assert!(good("/cont/dir/sub/file") && good("/cont/dir/sub") && good("/cont/dir/sub/a/b"));
    assert!(!good("/cont/dir") && !good("/cont/dir/other") && !good("/cont/other/sub/file"));
    let listing = |of: &str| format!("/cont?resource=filesystem&directory={of}");
    assert!(
        good(&listing("dir/sub")) && good(&listing("/dir/sub/")) && good(&listing("dir/sub/a"))
    );
    assert!(
        !good(&listing("dir")) && !good(&listing("dir/other")) && !good("/cont?restype=container")
    );
    assert!(!good("/cont?resource=other&directory=dir/sub"));
    // A directory that a parameter names counts only in a listing, not beside the path of a blob.
    assert!(!good("/cont/other?resource=filesystem&directory=dir/sub"));
    let old = token.replace("2020-12-06", "2019-12-12");
    let place = ("/cont/dir/sub", "/cont/dir/sub");
    let failure = verified(ServiceKind::Blob, place, &old, |_| {}).unwrap_err();
    assert!(detail(failure).contains("2020-02-10"));
    let of_method = |method: Method| {
        let place = listing("dir/sub");
        let place = (&*place, &*place);
        let change = |context: &mut Context| context.method = method.clone();
        verified(ServiceKind::Blob, place, token, change).is_ok()
    };
    assert!(of_method(Method::GET) && !of_method(Method::PUT));
}

#[test]
fn a_sas_for_a_snapshot_or_version_is_good_for_that_one_alone() {
    for (sr, parameter) in [("bs", "snapshot"), ("bv", "versionid")] {
        let token = format!("sv=2020-12-06&sr={sr}&sp=r&se=2024-03-02");
        let at = |day: u8| format!("/cont/b?{parameter}=2024-02-{day:02}T00:00:00.0000000Z");
        let good = |sent: &str| verified(ServiceKind::Blob, (&at(1), sent), &token, |_| {}).is_ok();
        assert!(good(&at(1)), "{sr}");
        assert!(!good(&at(2)) && !good("/cont/b"), "{sr}");
    }
    let token = "sv=2020-12-06&sr=b&sp=r&se=2024-03-02";
    let place = ("/cont/b", "/cont/b?snapshot=&versionid=");
    assert!(verified(ServiceKind::Blob, place, token, |_| {}).is_ok());
}

/// Source: Create a service SAS, "Version 2015-04-05 and later" and the sections of older versions.
#[test]
fn older_versions_sign_fewer_fields() {
    let signed = |version: &str| {
        let token = format!("sv={version}&st=S&se=E&sr=b&sp=P&si=I&sip=A&spr=H&rscc=C&rsct=T");
        let target = format!("/cont/b?{token}&sig=AAAA");
        let context = request(ServiceKind::Blob, "GET", &target, "myaccount", &[]);
        let sas = Sas::parse(&context).unwrap().unwrap();
        let text = sas.string_to_sign(&context, &Names::of(&context).unwrap());
        text.replace('\n', "|")
    };
    assert_eq!(signed("2010-09-19"), "P|S|E|/myaccount/cont/b|I");
    assert_eq!(signed("2012-02-12"), "P|S|E|/myaccount/cont/b|I|2012-02-12");
    assert_eq!(
        signed("2013-08-15"),
        "P|S|E|/myaccount/cont/b|I|2013-08-15|C||||T"
    );
    assert_eq!(
        signed("2015-02-21"),
        "P|S|E|/blob/myaccount/cont/b|I|2015-02-21|C||||T"
    );
    assert_eq!(
        signed("2015-04-05"),
        "P|S|E|/blob/myaccount/cont/b|I|A|H|2015-04-05|C||||T"
    );
}

/// Source: Create a user delegation SAS, the string to sign for Table Storage.
#[test]
fn a_user_delegation_sas_for_a_table_signs_its_range_of_keys() {
    let keys = "skoid=o&sktid=t&skt=2024-03-01&ske=2024-03-05&sks=t&skv=2025-07-05";
    let token = format!("sv=2025-07-05&sp=r&se=2024-03-02&tn=T&{keys}&spk=a&srk=1&epk=m&erk=9");
    let place = ("/T", "/T");
    let grant = verified(ServiceKind::Table, place, &token, |_| {}).unwrap();
    assert_eq!(grant.key_range.end_row_key.as_deref(), Some("9"));
    let target = format!("/T?{token}&sig=AAAA");
    let context = request(ServiceKind::Table, "GET", &target, "myaccount", &[]);
    let sas = Sas::parse(&context).unwrap().unwrap();
    let text = sas.string_to_sign(&context, &Names::of(&context).unwrap());
    assert!(text.ends_with("\n2025-07-05\na\n1\nm\n9"), "{text}");
}

#[test]
fn a_row_key_bounds_a_sas_only_with_its_partition_key() {
    let grant = |kind: &str, range: &str| {
        let token = format!("sv=2020-12-06&{kind}&sp=r&se=2024-03-02&{range}");
        verified(ServiceKind::Table, ("/T", "/T"), &token, |_| {})
    };
    for range in ["spk=a&srk=1", "epk=m&erk=9", "spk=a&epk=m", "srk=&erk="] {
        assert!(grant("tn=T", range).is_ok(), "{range}");
    }
    for range in ["srk=1", "erk=9", "srk=1&epk=m", "spk=a&erk=9"] {
        assert!(grant("tn=T", range).is_err(), "{range}");
        // An account SAS has no range: its signature does not cover these parameters.
        assert!(grant("ss=t&srt=o", range).is_ok(), "{range}");
    }
}

#[test]
fn a_grant_says_whose_key_signed_it() {
    let of = |kind: &str| {
        let token = format!("sv=2025-07-05&{kind}&sp=r&se=2024-03-02");
        verified(ServiceKind::Queue, ("/queue1", "/queue1"), &token, |_| {}).unwrap()
    };
    let (account, service) = (of("ss=q&srt=o"), of("tn="));
    assert!(account.by_account_key && account.account_wide);
    assert!(service.by_account_key && !service.account_wide);
    assert_eq!((account.key_user, service.key_user), (None, None));
    let delegated = delegated(str::to_owned, None).unwrap();
    assert!(!delegated.by_account_key && !delegated.account_wide);
    assert_eq!(delegated.key_user.as_deref(), Some("o"));
}

#[test]
fn a_sas_by_the_key_of_a_data_owner_has_no_user_to_check() {
    let token = "sv=2025-07-05&sp=raup&se=2024-03-02&skoid=o&sktid=t&skt=2024-03-01&ske=2024-03-05\
                 &sks=q&skv=2025-07-05";
    let accounts = crate::testing::accounts();
    let keys = &*accounts.keys("myaccount");
    let at = |signature: &str| {
        let target = format!("/queue1?{token}&sig={signature}");
        let mut context = request(ServiceKind::Queue, "GET", &target, "myaccount", &[]);
        context.sas_now = date::parse_iso8601("2024-03-01T12:00Z").unwrap();
        context
    };
    let context = at("AAAA");
    let sas = Sas::parse(&context).unwrap().unwrap();
    let text = sas.string_to_sign(&context, &Names::of(&context).unwrap());
    // Made from the parameters, not from what was read of them.
    let key = |of_data_owner| DelegationKey {
        object_id: "o".to_owned(),
        tenant_id: "t".to_owned(),
        start: "2024-03-01".to_owned(),
        expiry: "2024-03-05".to_owned(),
        service: "q".to_owned(),
        version: "2025-07-05".to_owned(),
        delegated_tenant_id: String::new(),
        of_data_owner,
    };
    for (of_data_owner, user) in [(false, Some("o")), (true, None)] {
        let key = key(of_data_owner).value(&keys[0]);
        let signature = crate::auth::signature::sign(&key, text.as_bytes());
        let context = at(&signature.replace('+', "%2B"));
        let sas = Sas::parse(&context).unwrap().unwrap();
        let grant = sas.verify(&context, keys, None, None).unwrap();
        assert_eq!(grant.key_user.as_deref(), user);
    }
}

#[test]
fn the_user_that_a_delegated_sas_names_is_one_guid() {
    let (one, other) = (
        "aaaaaaaa-0000-0000-0000-000000000001",
        "aaaaaaaa-0000-0000-0000-000000000002",
    );
    let with = |hierarchical: bool, ids: &str| {
        let token = format!(
            "sv=2020-12-06&sr=c&sp=r&se=2024-03-02&skoid=o&sktid=t&skt=2024-03-01&ske=2024-03-05&sks=b\
             &skv=2020-12-06{ids}"
        );
        verified(
            ServiceKind::Blob,
            ("/cont/b", "/cont/b"),
            &token,
            |context| {
                context.hierarchical = hierarchical;
            },
        )
    };
    let authorized = with(false, &format!("&saoid={one}&scid={other}")).unwrap();
    assert_eq!(authorized.authorized_user.as_deref(), Some(one));
    let checked = with(true, &format!("&suoid={one}")).unwrap();
    assert_eq!(checked.checked_user.as_deref(), Some(one));
    for (hierarchical, ids, part) in [
        (true, "&saoid=x".to_owned(), "saoid is not a GUID"),
        (true, "&suoid=x".to_owned(), "suoid is not a GUID"),
        (true, "&scid=x".to_owned(), "scid is not a GUID"),
        (
            true,
            format!("&saoid={one}&suoid={other}"),
            "exclude each other",
        ),
        (false, format!("&suoid={one}"), "hierarchical namespace"),
    ] {
        let found = detail(with(hierarchical, &ids).unwrap_err());
        assert!(found.contains(part), "{ids}: {found}");
    }
}
