/* The tests of the glue: connections, attributes and the queue. scripts/test-esp-idf builds and runs them. */
#include "device.h"

static const uint8_t sync[2] = {OTA_SYNC, 9};

static void open(uint16_t handle) {
    connect(handle);
    subscribe(handle, OTA_CONTROL, true);
}

static void leave(uint16_t handle) {
    disconnect(handle);
    settle();
    CHECK(world.mbufs == 0);
}

static void answers_wrong_requests_with_att_errors(void) {
    uint8_t value[OTAFLASH_LONGEST + 1] = {0}, bytes[300];
    start();
    connect(HOST);
    settle();
    CHECK(write_value(HOST, OTA_CONTROL, sync, 2) == OTA_ATT_NOT_SUBSCRIBED);
    subscribe(HOST, OTA_CONTROL, true);
    CHECK(write_value(HOST, OTA_CONTROL, sync, 1) == INVALID_LENGTH);
    CHECK(write_value(HOST, OTA_CONTROL, sync, 0) == INVALID_LENGTH);
    CHECK(write_value(HOST, OTA_DATA, value, sizeof value) == INVALID_LENGTH);
    CHECK(write_value(HOST, OTA_CONTROL, sync, 2) == 0);
    settle();
    CHECK(world.notifications == 1 && world.notified[0] == (0x80 | OTA_SYNC) && world.notified[1] == 9);
    CHECK(world.notified_handle == HOST && world.notified_attribute == *characteristic_at(OTA_CONTROL)->val_handle);
    int count = read_value(HOST, OTA_INFO, bytes, 0);
    CHECK(count > 50 && read_value(HOST, OTA_INFO, bytes, 10) == count - 10);
    CHECK(read_value(HOST, OTA_INFO, bytes, 300) == -INVALID_OFFSET);
    CHECK(read_value(HOST, OTA_VERSION, bytes, 0) == 5 && memcmp(bytes, "1.0.0", 5) == 0);
    /* The stack has no buffer for the value, or the application calls the attribute. */
    world.fails = "os_mbuf_append";
    CHECK(read_value(HOST, OTA_INFO, bytes, 0) == -0x11);
    world.fails = "ble_hs_mbuf_to_flat";
    CHECK(write_value(HOST, OTA_DATA, value, 20) == UNLIKELY);
    CHECK(read_value(BLE_HS_CONN_HANDLE_NONE, OTA_INFO, bytes, 0) == -UNLIKELY);
    leave(HOST);
}

static void requires_an_authenticated_link_only_if_configured(void) {
#ifdef CONFIG_OTAFLASH_AUTHENTICATED
    const uint16_t expected = BLE_GATT_CHR_F_WRITE_ENC | BLE_GATT_CHR_F_WRITE_AUTHEN;
#else
    const uint16_t expected = 0;
#endif
    start();
    CHECK(characteristic_at(OTA_CONTROL)->flags == (BLE_GATT_CHR_F_WRITE | BLE_GATT_CHR_F_NOTIFY | expected));
    CHECK(characteristic_at(OTA_DATA)->flags == (BLE_GATT_CHR_F_WRITE | BLE_GATT_CHR_F_WRITE_NO_RSP | expected));
    CHECK(characteristic_at(OTA_PROGRESS)->flags == (BLE_GATT_CHR_F_READ | BLE_GATT_CHR_F_NOTIFY));
    CHECK(characteristic_at(OTA_INFO)->flags == BLE_GATT_CHR_F_READ);
    CHECK(world.mtu == 498);
}

static void announces_the_sizes_of_the_partitions(void) {
    const uint8_t image[] = {5, 5, OTA_FORMAT_ESPRESSIF, 0, 0, 1, 0}, base[] = {11, 5, 1, 0, 0, 1, 0};
    uint8_t info[300];
    int found = 0;
    start();
    connect(HOST);
    settle();
    int locked = world.locked;
    int count = read_value(HOST, OTA_INFO, info, 0);
    CHECK(world.locked == locked + 2); /* the connections and the core */
    for (int i = 0; i + 7 <= count; i++) found += !memcmp(info + i, image, 7) + !memcmp(info + i, base, 7);
    CHECK(found == 2);
    leave(HOST);
}

static void forwards_the_restored_subscriptions_of_a_bonded_host(void) {
    start();
    connect(HOST);
    change_subscription(HOST, OTA_CONTROL, true, BLE_GAP_SUBSCRIBE_REASON_RESTORE);
    CHECK(write_value(HOST, OTA_CONTROL, sync, 2) == 0);
    settle();
    CHECK(world.notifications == 1);
    leave(HOST);
}

static void adds_a_connection_whose_event_was_not_reported(void) {
    start();
    subscribe(HOST, OTA_CONTROL, true);
    CHECK(write_value(HOST, OTA_CONTROL, sync, 2) == 0);
    settle();
    CHECK(world.notifications == 1);
    leave(HOST);
    /* A failed connection is no connection. */
    struct ble_gap_event event = {.type = BLE_GAP_EVENT_CONNECT, .connect = {.status = 13, .conn_handle = HOST}};
    for (int i = 0; i < 5; i++) {
        event.connect.conn_handle = (uint16_t)i;
        (void)world.listener->fn(&event, NULL);
    }
    connect(OTHER);
    open(HOST);
    CHECK(write_value(HOST, OTA_CONTROL, sync, 2) == 0);
    leave(HOST);
    leave(OTHER);
}

/* Skips a sequence number, which the core reports in Progress at once. */
static void send_with_a_gap(void) {
    uint8_t progress[12], value[10] = {0};
    CHECK(read_value(HOST, OTA_PROGRESS, progress, 0) == 12);
    value[0] = (uint8_t)(progress[2] + 1);
    value[1] = progress[3];
    world.notifications = 0;
    CHECK(write_value(HOST, OTA_DATA, value, sizeof value) == 0);
}

static void notifies_progress_while_the_host_is_subscribed(void) {
    uint8_t begin[19] = {OTA_BEGIN, 1, OTA_OBJECT_ENVELOPE, 200};
    start();
    open(HOST);
    /* An attribute of another service. */
    struct ble_gap_event event = {
        .type = BLE_GAP_EVENT_SUBSCRIBE, .subscribe = {.conn_handle = HOST, .attr_handle = 7, .reason = 1, .cur_notify = 1}};
    (void)world.listener->fn(&event, NULL);
    CHECK(request(begin, sizeof begin) == OTA_OK && world.requests == 3);
    send_with_a_gap();
    settle();
    CHECK(world.notifications == 0);
    subscribe(HOST, OTA_PROGRESS, true);
    send_with_a_gap();
    settle();
    CHECK(world.notifications == 1 && world.notified_attribute == *characteristic_at(OTA_PROGRESS)->val_handle);
    CHECK(world.notified_size == 12);
    /* The host unsubscribes while the notification waits. */
    world.has_buffer = false;
    send_with_a_gap();
    settle();
    subscribe(HOST, OTA_PROGRESS, false);
    world.has_buffer = true;
    settle();
    CHECK(world.notifications == 0);
    send_with_a_gap();
    settle();
    CHECK(world.notifications == 0);
    leave(HOST);
}

static void discards_the_notifications_of_a_connection_that_has_ended(void) {
    start();
    open(HOST);
    settle();
    world.has_buffer = false;
    CHECK(write_value(HOST, OTA_CONTROL, sync, 2) == 0);
    settle();
    /* The next host gets the same handle, and subscribes before the stack has a buffer and before the task runs again. */
    disconnect(HOST);
    open(HOST);
    world.has_buffer = true;
    settle();
    CHECK(world.notifications == 0);
    CHECK(write_value(HOST, OTA_CONTROL, sync, 2) == 0);
    settle();
    CHECK(world.notifications == 1);
    leave(HOST);
}

static void sends_a_notification_again_if_the_stack_had_no_buffer(void) {
    bool *const buffers[] = {&world.has_mbuf, &world.has_buffer};
    for (int i = 0; i < 2; i++) {
        start();
        open(HOST);
        settle();
        *buffers[i] = false;
        CHECK(write_value(HOST, OTA_CONTROL, sync, 2) == 0);
        settle();
        CHECK(world.notifications == 0);
        /* The answer was not sent, so the core drops the next request: the host must wait for it. */
        *buffers[i] = true;
        settle();
        CHECK(world.notifications == 1 && world.notified[1] == 9);
        leave(HOST);
    }
}

static void a_host_without_buffers_does_not_delay_another_host(void) {
    start();
    open(HOST);
    open(OTHER);
    settle();
    world.blocked = HOST;
    CHECK(write_value(HOST, OTA_CONTROL, sync, 2) == 0);
    CHECK(write_value(OTHER, OTA_CONTROL, sync, 2) == 0);
    settle();
    CHECK(world.notifications == 1 && world.notified_handle == OTHER);
    world.blocked = BLE_HS_CONN_HANDLE_NONE;
    settle();
    CHECK(world.notifications == 2 && world.notified_handle == HOST);
    leave(HOST);
    leave(OTHER);
}

static void serves_only_the_first_of_two_hosts(void) {
    uint8_t begin[19] = {OTA_BEGIN, 1, OTA_OBJECT_ENVELOPE, 200};
    start();
    open(HOST);
    open(OTHER);
    CHECK(request(begin, sizeof begin) == OTA_OK);
    CHECK(write_value(OTHER, OTA_CONTROL, begin, sizeof begin) == 0);
    settle();
    CHECK(world.notified_handle == OTHER && world.notified[2] == OTA_BUSY);
    /* The ownership ends with the connection. */
    leave(HOST);
    CHECK(write_value(OTHER, OTA_CONTROL, begin, sizeof begin) == 0);
    settle();
    CHECK(world.notified_handle == OTHER && world.notified[2] == OTA_OK);
    /* A third connection does not fit. */
    open(HOST);
    connect(9);
    CHECK(write_value(9, OTA_DATA, begin, 4) == OTA_ATT_INSUFFICIENT_RESOURCES);
    disconnect(9);
    leave(HOST);
    leave(OTHER);
}

static void drops_only_data_if_the_queue_is_full(void) {
    uint8_t value[20] = {0};
    int accepted = 0;
    start();
    open(HOST);
    settle();
    /* A flood of Data is accepted by the stack's callback, but leaves the places for requests. */
    for (int i = 0; i < 100; i++) CHECK(write_value(HOST, OTA_DATA, value, sizeof value) == 0);
    /* A flood of requests gets an error, but leaves the places for connections. */
    while (write_value(HOST, OTA_CONTROL, sync, 2) == 0) accepted++;
    CHECK(accepted >= 4 && accepted <= 8);
    CHECK(write_value(HOST, OTA_CONTROL, sync, 2) == OTA_ATT_INSUFFICIENT_RESOURCES);
    connect(OTHER);
    disconnect(HOST);
    disconnect(OTHER);
    settle();
    /* The core knows that both have left. */
    open(HOST);
    open(OTHER);
    settle();
    world.notifications = 0;
    CHECK(write_value(HOST, OTA_CONTROL, sync, 2) == 0 && write_value(OTHER, OTA_CONTROL, sync, 2) == 0);
    settle();
    CHECK(world.notifications == 2);
    leave(HOST);
    leave(OTHER);
}

static void repeats_a_subscription_that_did_not_fit(void) {
    start();
    connect(HOST);
    settle();
    /* The task does not run, and the host changes its subscription. NimBLE accepts each change. */
    for (int i = 0; i < 51; i++) subscribe(HOST, OTA_CONTROL, i % 2 == 0);
    CHECK(write_value(HOST, OTA_CONTROL, sync, 2) == OTA_ATT_INSUFFICIENT_RESOURCES);
    settle();
    CHECK(write_value(HOST, OTA_CONTROL, sync, 2) == 0);
    settle();
    CHECK(world.notifications == 1);
    leave(HOST);
}

static void never_loses_a_disconnection(void) {
    start();
    /* Connections come and go while the task does not run. */
    for (uint16_t i = 0; i < 100; i++) {
        open(i);
        (void)write_value(i, OTA_CONTROL, sync, 2);
        connect((uint16_t)(i + 1));
        disconnect(i);
        disconnect((uint16_t)(i + 1));
    }
    connect(HOST);
    connect(OTHER);
    disconnect(HOST);
    disconnect(OTHER);
    settle();
    CHECK(world.notifications == 0);
    open(HOST);
    open(OTHER);
    CHECK(write_value(HOST, OTA_CONTROL, sync, 2) == 0 && write_value(OTHER, OTA_CONTROL, sync, 2) == 0);
    settle();
    CHECK(world.notifications == 2);
    leave(HOST);
    leave(OTHER);
}

static void keeps_the_order_of_the_events(void) {
    uint8_t value[20] = {0};
    start();
    /* All events wait in the queue before the task runs. */
    open(HOST);
    CHECK(write_value(HOST, OTA_DATA, value, sizeof value) == 0);
    CHECK(write_value(HOST, OTA_CONTROL, sync, 2) == 0);
    subscribe(HOST, OTA_CONTROL, false);
    disconnect(HOST);
    open(OTHER);
    CHECK(write_value(OTHER, OTA_CONTROL, sync, 2) == 0);
    settle();
    CHECK(world.notifications == 1 && world.notified_handle == OTHER);
    leave(OTHER);
}

static void run_all(void) {
    RUN(answers_wrong_requests_with_att_errors);
    RUN(requires_an_authenticated_link_only_if_configured);
    RUN(announces_the_sizes_of_the_partitions);
    RUN(forwards_the_restored_subscriptions_of_a_bonded_host);
    RUN(adds_a_connection_whose_event_was_not_reported);
    RUN(notifies_progress_while_the_host_is_subscribed);
    RUN(discards_the_notifications_of_a_connection_that_has_ended);
    RUN(sends_a_notification_again_if_the_stack_had_no_buffer);
    RUN(a_host_without_buffers_does_not_delay_another_host);
    RUN(serves_only_the_first_of_two_hosts);
    RUN(drops_only_data_if_the_queue_is_full);
    RUN(repeats_a_subscription_that_did_not_fit);
    RUN(never_loses_a_disconnection);
    RUN(keeps_the_order_of_the_events);
    test_updates();
    test_power_cuts();
}

int main(void) {
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    run_all();
    printf("        the same tests with an encrypted flash\n");
    encrypts = true;
    run_all();
    return 0;
}
