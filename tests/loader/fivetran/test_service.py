"""The service over the wire: sign-in, tests, answers; writes as load runs, performed by a scripted runner."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import grpc
import pytest
from django.contrib.auth.models import User
from django.db import connection

from architecture.models import ChangeReport
from elevata.accounts.actors import acting_as
from elevata.accounts.services.tokens import create_token
from elevata.accounts.services.users import create_user
from loader.contract.refusals import Refusal
from loader.fivetran.protocol import messages
from loader.fivetran.server import Listener, serving
from loader.models import LoadRun
from loader.services.loads.load_work import perform_load_run
from loader.services.maintenance.history_batches import request_history_batch
from loader.services.uploads import SentFile, keep_batch, sweep_uploads
from metadata.models import TargetDataset
from tests.loader.fivetran.sender import NULL, SAME, Sender, table
from tests.loader.processes import wait_until
from tests.services.certificates import self_signed

pytestmark = pytest.mark.django_db(transaction=True)

ITEM = {"id": "LONG", "name": "STRING", "_fivetran_synced": "UTC_DATETIME"}
HISTORY = {"_fivetran_start": "UTC_DATETIME", "_fivetran_end": "UTC_DATETIME", "_fivetran_active": "BOOLEAN"}


@pytest.fixture
def working(runner, monkeypatch) -> Iterator[None]:
    """Perform queued runs with the scripted runner, as a worker does."""
    monkeypatch.setattr("loader.management.waiting.live_workers", LoadRun.objects.all)
    done = threading.Event()

    def work() -> None:
        while not done.wait(0.05):
            for pk in LoadRun.objects.filter(status="queued").values_list("pk", flat=True):
                perform_load_run(pk, worker="w1", runner=runner)
        connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    yield
    done.set()
    thread.join()


def status(function, *arguments, **options) -> str:
    with pytest.raises(grpc.RpcError) as caught:
        function(*arguments, **options)
    return caught.value.code().name


def token_of(name: str, *roles: str, **options) -> str:
    user = create_user(name=name, roles=list(roles))
    with acting_as(user):
        return create_token(user=user, **options)[1]


def test_form_and_capabilities_need_no_token(sender: Sender):
    sender.token = ""
    form = sender.call("ConfigurationForm", messages.FormRequest())
    assert ([field.name for field in form.fields], form.fields[0].text_field) == (["token"], messages.Password)
    assert [test.name for test in form.tests] == ["permission", "worker"]
    capabilities = sender.call("Capabilities", messages.CapabilitiesRequest())
    assert capabilities.batch_file_format == messages.CSV


def test_a_wrong_token_or_one_without_permission_is_refused(sender: Sender):
    for token, code in (
        ("", "UNAUTHENTICATED"),
        ("x" * 64, "UNAUTHENTICATED"),
        (token_of("vic", "viewer"), "PERMISSION_DENIED"),
    ):
        sender.token = token
        assert status(sender.describe, "item") == code
    sender.token = token_of("rita", "operator", "editor", scope="read")
    assert status(sender.create, table("item", ["id"], **ITEM)) == "PERMISSION_DENIED"


def test_a_token_in_the_header_signs_in(sender: Sender):
    request = messages.DescribeRequest(schema_name="shop", table_name="item")
    header = (("authorization", f"Bearer {sender.token}"),)
    assert sender.call("DescribeTable", request, metadata=header).not_found


def test_connection_tests_report_a_missing_worker_and_a_wrong_token(sender: Sender):
    assert sender.test("permission").success
    assert "no worker is running" in sender.test("worker").failure
    assert "there is no test" in sender.test("other").failure
    sender.token = "unknown"
    assert "token" in sender.test("permission").failure


def test_sender_without_the_editor_role_cannot_create_a_table(sender: Sender):
    sender.token = token_of("otto", "operator")
    assert "editor" in sender.test("permission").failure
    assert "editor role" in sender.create(table("item", ["id"], **ITEM)).task.message
    assert not TargetDataset.objects.exists()


def test_sender_without_the_editor_role_has_no_file_of_the_source_roots_read(sender: Sender, landing: Path):
    sender.create(table("item", ["id"], **ITEM))
    path = sender.file("id,name", "1,a")
    sender.token = token_of("otto", "operator")
    assert "editor" in sender.write("item", replace=[path]).task.message
    assert not LoadRun.objects.exists()
    assert kept_files(landing) == []


def test_internal_error_is_logged_and_hidden_from_the_sender(sender: Sender, monkeypatch, caplog):
    monkeypatch.setattr("loader.fivetran.tables.known_table", lambda *_: 1 / 0)
    with pytest.raises(grpc.RpcError) as caught:
        sender.describe("item")
    assert (caught.value.code().name, "zero" in caught.value.details()) == ("INTERNAL", False)
    assert "ZeroDivisionError" in caplog.text


def test_a_table_is_created_described_and_altered(sender: Sender):
    assert sender.describe("item").not_found
    sent = table("item", ["id"], **ITEM, price=("DECIMAL", 9, 2))
    assert sender.create(sent).success
    assert sender.describe("item").table == sent
    assert "already" in sender.create(sent).task.message
    altered = table("item", ["id"], **ITEM, price=("DECIMAL", 12, 2))
    assert sender.alter(altered).success
    assert sender.describe("item").table == altered


def test_batch_starts_a_run_of_the_sender_and_deletes_its_decrypted_files(
    sender: Sender, working, script, landing: Path
):
    sender.create(table("item", ["id"], **ITEM))
    files = sender.file("id,name,_fivetran_synced", "1,a,2026-01-01T00:00:00Z")
    answer = sender.write("item", replace=[files], delete=[sender.file("id", "2")])
    assert answer.success, answer
    run = LoadRun.objects.get(kind="history_batch")
    assert (run.who, run.reason, run.status) == ("fay", "written by Fivetran", "succeeded")
    (load,) = script.seen("load")[0]["body"]["rawcore"]
    read = load["files"]
    assert (read["null_string"], read["unmodified_string"], read["binary"]) == (NULL, SAME, "base64")
    assert read["names"] == {"_fivetran_synced": "fivetran_synced"}
    assert datetime.fromisoformat(read["dated"]).tzinfo is not None
    assert [Path(path).suffix for kind in ("upsert", "delete") for path in read[kind]] == [".csv", ".csv"]
    assert kept_files(landing) == []


def test_history_mode_batch_gets_no_date_from_the_service(sender: Sender, working, script):
    sender.create(table("item", ["id", "_fivetran_start"], **ITEM, **HISTORY))
    earliest = sender.file("id,_fivetran_start", "1,2026-01-01T00:00:00Z")
    assert sender.write_history("item", earliest_start=[earliest]).success
    (load,) = script.seen("load")[0]["body"]["rawcore"]
    assert (load["files"]["dated"], len(load["files"]["earliest_start"])) == (None, 1)
    assert "history mode" in sender.write("item", replace=[earliest]).task.message


def test_batch_without_files_starts_no_run(sender: Sender):
    sender.create(table("item", ["id"], **ITEM))
    assert sender.write("item").success
    assert not LoadRun.objects.exists()


def test_batch_file_with_a_wrong_or_missing_key_returns_a_task_and_starts_no_run(sender: Sender, landing: Path):
    sender.create(table("item", ["id"], **ITEM))
    path = sender.file("id,name", "1,a")
    sender.keys[path] = b"x" * 32
    assert "key" in sender.write("item", replace=[path]).task.message
    assert "no key" in sender.write("item", replace=[str(landing / "other.csv")]).task.message
    assert not LoadRun.objects.exists()
    assert list((landing.parent / "batches").iterdir()) == []


@pytest.mark.full
def test_refused_batch_returns_a_task_without_values(sender: Sender, working, script):
    sender.create(table("item", ["id"], **ITEM))
    refusal = Refusal("VALUE_DOES_NOT_FIT", "1 value of id does not fit", samples=("secret",)).as_json()
    script.tell(fail={"rawcore.rc_shop_item": refusal})
    message = sender.write("item", replace=[sender.file("id", "x")]).task.message
    assert ("does not fit" in message, "secret" in message) == (True, False)


@pytest.mark.full
def test_a_change_that_needs_approval_names_its_report(sender: Sender, working):
    sender.create(table("item", ["id"], **ITEM))
    batch = {"replace": [sender.file("id,name", "1,a")]}
    assert sender.write("item", **batch).success
    altered = table("item", ["id"], **ITEM | {"name": "INT"})
    message = sender.alter(altered).task.message
    report = ChangeReport.objects.get()
    assert f"change report {report.report_id}" in message
    assert sender.describe("item").table == altered  # all metadata changed, and the table did not
    assert f"change report {report.report_id}" in sender.write("item", **batch).task.message
    assert LoadRun.objects.order_by("-pk")[0].status == "blocked"


def test_batch_without_a_live_worker_is_canceled_and_returns_unavailable(sender: Sender, monkeypatch):
    monkeypatch.setattr("elevata.jobs.states.WORKER_SILENT_AFTER", datetime.resolution)
    sender.create(table("item", ["id"], **ITEM))
    assert status(sender.write, "item", replace=[sender.file("id", "1")]) == "UNAVAILABLE"
    assert LoadRun.objects.get().status == "canceled"


@pytest.mark.full
def test_truncate_ends_or_marks_rows_synced_before_its_time(sender: Sender, working, script):
    before = datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)
    assert sender.truncate("item", before).success  # a table that does not exist
    sender.create(table("item", ["id"], **ITEM, _fivetran_deleted="BOOLEAN"))
    assert sender.truncate("item", before).success
    assert sender.truncate("item", before, "_fivetran_deleted").success
    hard, soft = (received["body"]["rawcore"][0]["files"]["rows"] for received in script.seen("load"))
    text = "2026-01-02T03:04:05.678000+00:00"
    assert (hard["at"], hard["before"], hard["deletes"]) == (text, {"fivetran_synced": text}, True)
    assert (soft["at"], soft["values"], soft["deletes"]) == (text, {"_fivetran_deleted": "true"}, False)


@pytest.mark.full
def test_migrations_rename_add_copy_and_update_columns(sender: Sender, working, script):
    sender.create(table("item", ["id"], **ITEM))
    rename = messages.Rename(rename_column=messages.FromTo(source="name", target="title"))
    assert sender.migrate("item", rename=rename).success
    default = messages.AddColumnWithDefaultValue(column="n", column_type=messages.INT, default_value="7")
    assert sender.migrate("item", add=messages.Add(add_column_with_default_value=default)).success
    copy = messages.Copy(copy_column=messages.FromTo(source="title", target="label"))
    assert sender.migrate("item", copy=copy).success
    update = messages.UpdateColumnValue(column="n", value="8")
    assert sender.migrate("item", update_column_value=update).success
    rows = [received["body"]["rawcore"][0]["files"]["rows"] for received in script.seen("load")]
    assert [row["values"] or row["copies"] for row in rows] == [{"n": "7"}, {"label": "title"}, {"n": "8"}]
    names = [column.name for column in sender.describe("item").table.columns]
    assert names == ["id", "title", "_fivetran_synced", "n", "label"]


@pytest.mark.full
def test_migrations_in_history_mode_write_versions_at_the_time_of_the_operation(sender: Sender, working, script):
    sender.create(table("item", ["id", "_fivetran_start"], **ITEM, **HISTORY))
    time = "2026-01-02T03:04:05.678901234Z"
    added = messages.AddColumnInHistoryMode(
        column="n", column_type=messages.INT, default_value="7", operation_timestamp=time
    )
    assert sender.migrate("item", add=messages.Add(add_column_in_history_mode=added)).success
    dropped = messages.DropColumnInHistoryMode(column="name", operation_timestamp=time)
    assert sender.migrate("item", drop=messages.Drop(drop_column_in_history_mode=dropped)).success
    rows = [received["body"]["rawcore"][0]["files"]["rows"] for received in script.seen("load")]
    assert {row["at"] for row in rows} == {"2026-01-02T03:04:05.678901+00:00"}
    assert [(row["values"], row["having"]) for row in rows] == [({"n": "7"}, ""), ({"name": None}, "name")]


@pytest.mark.full
def test_migrations_without_a_time_change_all_versions_in_history_mode(sender: Sender, working, script):
    sender.create(table("item", ["id", "_fivetran_start"], **ITEM, **HISTORY))
    default = messages.AddColumnWithDefaultValue(column="n", column_type=messages.INT, default_value="7")
    assert sender.migrate("item", add=messages.Add(add_column_with_default_value=default)).success
    copy = messages.Copy(copy_column=messages.FromTo(source="name", target="label"))
    assert sender.migrate("item", copy=copy).success
    assert sender.migrate("item", update_column_value=messages.UpdateColumnValue(column="n")).success
    rows = [received["body"]["rawcore"][0]["files"]["rows"] for received in script.seen("load")]
    assert [(row["every"], row["values"] or row["copies"]) for row in rows] == [
        (True, {"n": "7"}),
        (True, {"label": "name"}),
        (True, {"n": None}),
    ]


def test_migrations_rename_and_drop_tables(sender: Sender, working):
    sender.create(table("item", ["id"], **ITEM))
    rename = messages.Rename(rename_table=messages.FromTo(source="item", target="article"))
    assert sender.migrate("item", rename=rename).success
    assert sender.migrate("article", drop=messages.Drop(drop_table=True)).success
    assert sender.describe("article").not_found


@pytest.mark.full
@pytest.mark.parametrize("type_", ["SOFT_DELETE_TO_LIVE", "HISTORY_TO_LIVE", "LIVE_TO_SOFT_DELETE", "LIVE_TO_HISTORY"])
def test_migrations_of_the_live_mode_are_unsupported(sender: Sender, type_: str):
    sender.create(table("item", ["id"], **ITEM))
    mode = messages.SyncModeMigration(type=type_)
    assert sender.migrate("item", table_sync_mode_migration=mode).unsupported


@pytest.mark.full
def test_copy_of_a_table_takes_all_versions_and_can_be_repeated(sender: Sender, working, script):
    sender.create(table("item", ["id"], **ITEM, price=("DECIMAL", 9, 2)))
    copy = messages.Copy(copy_table=messages.FromTo(source="item", target="other"))
    for _ in range(2):
        assert sender.migrate("item", copy=copy).success
    assert sender.describe("other").table == table("other", ["id"], **ITEM, price=("DECIMAL", 9, 2))
    load = script.seen("load")[-1]["body"]["rawcore"][0]
    rows = load["files"]["rows"]
    assert (load["name"], rows["history"]["name"], rows["every"]) == (
        "rawcore.rc_shop_other",
        "rc_shop_item_hist",
        True,
    )
    assert rows["copies"] == {name: name for name in ("id", "name", "fivetran_synced", "price")}
    run = LoadRun.objects.latest("pk")
    assert (run.reason, run.details["asked"]["copied"]) == ("copied by Fivetran from item", "rawcore.rc_shop_item")


def test_a_table_with_other_columns_is_not_overwritten_by_a_copy(sender: Sender):
    sender.create(table("item", ["id"], **ITEM))
    sender.create(table("other", ["id"], id="LONG", title="STRING"))
    copy = messages.Copy(copy_table=messages.FromTo(source="item", target="other"))
    assert "already" in sender.migrate("item", copy=copy).task.message
    copy = messages.Copy(copy_table=messages.FromTo(source="unknown", target="another"))
    assert "no table shop.unknown" in sender.migrate("item", copy=copy).task.message


@pytest.mark.full
def test_a_copy_to_history_mode_ends_rows_that_are_marked_as_deleted(sender: Sender, working, script):
    sender.create(table("item", ["id"], **ITEM, _fivetran_deleted="BOOLEAN"))
    copied = messages.CopyTableToHistoryMode(source="item", target="past", soft_deleted_column="_fivetran_deleted")
    assert sender.migrate("item", copy=messages.Copy(copy_table_to_history_mode=copied)).success
    assert sender.describe("past").table == table("past", ["id", "_fivetran_start"], **ITEM, **HISTORY)
    assert "_fivetran_deleted" in [column.name for column in sender.describe("item").table.columns]
    rows = script.seen("load")[0]["body"]["rawcore"][0]["files"]["rows"]
    assert (rows["every"], rows["deletes"], rows["equal"]) == (True, True, {"_fivetran_deleted": "true"})
    assert "_fivetran_deleted" not in rows["copies"]


@pytest.mark.full
def test_migrations_between_soft_delete_and_history_mode_carry_the_deletes_over(sender: Sender, working, script):
    soft, history = table("item", ["id"], **ITEM, _fivetran_deleted="BOOLEAN"), table("item", ["id"], **ITEM, **HISTORY)
    history.columns[len(ITEM)].primary_key = True
    sender.create(soft)
    mode = messages.SyncModeMigration(type=messages.SOFT_DELETE_TO_HISTORY, soft_deleted_column="_fivetran_deleted")
    assert sender.migrate("item", table_sync_mode_migration=mode).success
    assert sender.describe("item").table == history
    mode = messages.SyncModeMigration(type=messages.HISTORY_TO_SOFT_DELETE)
    assert sender.migrate("item", table_sync_mode_migration=mode).success
    assert sender.describe("item").table == soft
    rows = [received["body"]["rawcore"][0]["files"]["rows"] for received in script.seen("load")]
    assert [(row["deletes"], row["ended"], row["equal"] or row["values"]) for row in rows] == [
        (True, False, {"_fivetran_deleted": "true"}),
        (False, False, {"_fivetran_deleted": "false"}),
        (False, True, {"_fivetran_deleted": "true"}),
    ]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_listener_requires_tls_for_addresses_other_than_loopback(host: str):
    with pytest.raises(Refusal) as caught, serving(Listener(host, 0)):
        pass
    assert caught.value.code == "TLS_NEEDED"


def test_a_certificate_without_its_key_is_refused(tmp_path: Path):
    with pytest.raises(Refusal) as caught, serving(Listener("127.0.0.1", 0, certificate=tmp_path / "c.pem")):
        pass
    assert caught.value.code == "BAD_OPTION"


def test_service_with_tls_accepts_encrypted_connections_only(sender: Sender, tmp_path: Path):
    certificate, key = self_signed(tmp_path)
    with serving(Listener("127.0.0.1", 0, certificate, key)) as port:
        credentials = grpc.ssl_channel_credentials(certificate.read_bytes())
        with grpc.secure_channel(f"localhost:{port}", credentials) as channel:
            sender.channel = channel
            assert sender.test("permission").success
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            sender.channel = channel
            assert status(sender.describe, "item") == "UNAVAILABLE"


def test_service_stop_cancels_the_pending_run_and_deletes_its_files(
    sender: Sender, landing: Path, monkeypatch, in_threads
):
    monkeypatch.setattr("loader.management.waiting.live_workers", LoadRun.objects.all)
    sender.create(table("item", ["id"], **ITEM))
    path = sender.file("id", "1")
    service = ExitStack()
    port = service.enter_context(serving(Listener("127.0.0.1", 0)))

    def stop() -> None:
        wait_until(lambda: LoadRun.objects.exists(), 10)
        assert {oct(file.stat().st_mode & 0o777) for file in kept_files(landing)} == {"0o600"}
        service.close()

    with grpc.insecure_channel(f"127.0.0.1:{port}") as sender.channel:
        answers = in_threads(lambda: status(sender.write, "item", replace=[path]), stop)
    assert answers == ["UNAVAILABLE", None]
    assert (LoadRun.objects.get().status, kept_files(landing)) == ("canceled", [])


@pytest.mark.full
@pytest.mark.parametrize(("end", "expected"), [("queued", 1), ("failed", 0), ("lost", 0)])
def test_sweep_deletes_files_of_a_killed_service_after_their_run_ended(sender: Sender, landing: Path, end, expected):
    sender.create(table("item", ["id"], **ITEM))
    batch = keep_batch(run_id="r1", sent=[SentFile("upsert", "a", [b"id"])], repeatable=False)
    with acting_as(User.objects.get(username="fay")):
        request_history_batch(dataset="rawcore.rc_shop_item", files=batch.files, run_id="r1", wake_worker=False)
    LoadRun.objects.update(status=end, finished_at=None if expected else datetime.now(UTC))
    sweep_uploads()
    assert len({path.parent for path in kept_files(landing)}) == expected


def kept_files(landing: Path) -> list[Path]:
    return [path for path in (landing.parent / "batches").rglob("*") if path.is_file()]
