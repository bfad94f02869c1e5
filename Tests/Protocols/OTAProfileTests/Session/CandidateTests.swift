import OTAProfile
import OTAUpdate
import Testing

/// Pushes whose device does not answer at its old address after the restart. The candidates report the fields of each test.
@Suite("A new address after the restart, over the OTA profile") struct CandidateTests {
    private typealias Device = Conversation.Device
    private static let trial = Device(version: "1.1.0", state: 5)

    /// A push up to the restart, with one failed attempt to connect to the old address.
    private func restarted(_ options: UpdateOptions = UpdateOptions()) throws -> Conversation {
        var talk = try Conversation(.push(try ExampleUpdate.bundle(), options))
        talk.comeUp(Device())
        talk.forget()
        talk.notify("81 21 00 00 10 00 00 00 00 00 00 00 00")
        talk.notify("82 22 00 01 10 a9 00 00 00 88 e1 59 0d")
        talk.notify("83 23 00")
        talk.notify("81 24 00 01 20 00 00 00 00 00 00 00 00")
        talk.notify("82 25 00 04 20 58 02 00 00 3b 94 b2 df")
        talk.notify("83 26 00")
        talk.forget()
        talk.notify("84 27 00")
        talk.expect(.disconnect)
        talk.tell(.linkDown(LinkError(.lost, "closed")))
        talk.waitForDeadline()
        talk.expect(.connect())
        talk.tell(.linkDown(LinkError(.timedOut, "no advertisement was seen")))
        talk.waitForDeadline()
        return talk
    }

    @Test("a device with a new address is confirmed after its status shows the image of the push on trial")
    func newAddress() throws {
        var talk = try restarted()
        talk.expect(.find(rejected: []))
        talk.comeUp(Self.trial, candidate: "C0")
        talk.expect(.acceptCandidate, .link(.write(ExampleUpdate.bytes("05 28"), ProfileChannel.control)))
        let note = UpdateProgress.note("after its restart, the device has the new address C0")
        #expect(talk.reports.suffix(3) == [.reconnected, note, .phase(.confirm)])
        // From now on, the new address is the address of the device.
        talk.tell(.linkDown(LinkError(.lost, "gone")))
        talk.waitForDeadline()
        talk.expect(.connect())
        talk.comeUp(Device(version: "1.1.0"))
        #expect(talk.report?.outcome == .confirmed && talk.report?.transfer?.disconnects == 1)
    }

    @Test(
        "a candidate with another status is left alone without a request, and named in the error",
        arguments: [
            ("runs version 1.0.0, which is not on trial", Device()),
            ("runs version 1.1.0, which is not on trial", Device(version: "1.1.0")),
            ("has another image on trial, version 1.2.0", Device(version: "1.2.0", state: 5)),
            ("is the product lamp", Device(product: "lamp", version: "1.1.0", state: 5)),
            ("has the hardware revision 3", Device(hardware: 3, version: "1.1.0", state: 5)),
            ("has the security counter 8", Device(counter: 8, version: "1.1.0", state: 5)),
            (
                "has another image on trial, version 1.1.0",
                Device(running: [1, 2, 3, 4, 5, 6, 7, 8], version: "1.1.0", state: 5)
            ),
        ])
    func another(_ difference: String, _ device: Conversation.Device) throws {
        var talk = try restarted()
        talk.expect(.find(rejected: []))
        talk.comeUp(device, candidate: "C0")
        talk.expect(.disconnect)
        talk.tell(.linkDown(LinkError(.lost, "closed")))
        talk.waitForDeadline()
        talk.expect(.find(rejected: ["C0"]))
        while talk.outcome == nil {
            talk.tell(.linkDown(LinkError(.timedOut, "no advertisement was seen")))
            if talk.outcome == nil { talk.waitForDeadline() }
            talk.forget()
        }
        guard case .failure(let error)? = talk.outcome else { return }
        #expect(
            error == UpdateError(.didNotReturn, "")
                && error.context
                    == "the device did not return after its restart: no advertisement was seen; 1 other device with its name was seen and left alone: "
                    + "C0 " + difference
        )
        #expect(talk.now < .seconds(90), "a candidate does not extend the restart window")
        #expect(!talk.reports.contains { if case .linkLost = $0 { true } else { false } })
    }

    @Test("a candidate whose link fails twice, or without the OTA service, is left alone")
    func unreadable() throws {
        var talk = try restarted()
        for address in ["C0", "C0"] {
            talk.expect(.find(rejected: []))
            talk.tell(.linkDown(LinkError(.timedOut, "no connection", candidate: address)))
            talk.waitForDeadline()
        }
        talk.expect(.find(rejected: ["C0"]))
        talk.tell(.linkUp(LinkProperties(channels: [], maximumValueLength: 244, candidate: "C1")))
        talk.expect(.disconnect)
        talk.tell(.linkDown(LinkError(.lost, "closed")))
        talk.waitForDeadline()
        talk.expect(.find(rejected: ["C0", "C1"]))
        talk.comeUp(Self.trial, candidate: "C2")
        talk.expect(.acceptCandidate, .link(.write(ExampleUpdate.bytes("05 28"), ProfileChannel.control)))
    }

    @Test("malformed values of a candidate do not count for the device")
    func malformed() throws {
        var talk = try restarted()
        for candidate in ["C0", nil] {
            talk.forget()
            talk.tell(
                .linkUp(
                    LinkProperties(
                        channels: [
                            ProfileChannel.info, ProfileChannel.control, ProfileChannel.data, ProfileChannel.progress,
                            ProfileChannel.version,
                        ], maximumValueLength: 244, candidate: candidate)))
            talk.forget()
            talk.tell(.link(.value([1], ProfileChannel.info)))
            // At the second malformed value in a row, a session fails.
            talk.expect(.disconnect)
            #expect(talk.outcome == nil)
            talk.tell(.linkDown(LinkError(.lost, "closed")))
            talk.waitForDeadline()
        }
    }

    @Test("the device at its old address is confirmed even after another device was looked at")
    func oldAddress() throws {
        var talk = try restarted()
        talk.expect(.find(rejected: []))
        talk.comeUp(Device(), candidate: "C0")
        talk.forget()
        talk.tell(.linkDown(LinkError(.lost, "closed")))
        talk.waitForDeadline()
        talk.forget()
        talk.comeUp(Self.trial)
        talk.expect("05 28", answering: "85 28 00")
        #expect(talk.report?.outcome == .confirmed)
    }
}
