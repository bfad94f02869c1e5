import BlueZ
import ChatProtocol
import Testing

@Suite("Chat: failures of this machine")
struct FailureTests {
    private var messenger = Messenger(PeerID(1), Session("public"))
    private let call = Announcement(.call(PeerID(2)), Session("public"))
    private let presence = Announcement(.presence(PeerID(1)), Session("public"))
    private static let failed = "The advertisement failed and is repeated: bluetoothd refused it"

    private mutating func handle(_ event: Messenger.Event, at seconds: Int = 0) -> [Messenger.Action] {
        messenger.handle(event, at: .seconds(seconds))
    }

    private mutating func startCall() {
        _ = handle(.sighted(Air.address(2), name: "Bob", Announcement(.presence(PeerID(2)), Session("public"))))
        _ = handle(.typed("Bob"))
        #expect(handle(.typed("hello")).contains(.advertise(call)))
    }

    @Test("a failed change of the advertisement does not end the chat, and is repeated after 5 s with one notice")
    mutating func repeatsTheAdvertisement() {
        startCall()
        #expect(handle(.advertisingFailed("bluetoothd refused it")) == [.show(.notice(Self.failed))])
        for second in stride(from: 5, through: 25, by: 5) {
            #expect(messenger.deadline == .seconds(second) && messenger.chatName == "Bob")
            #expect(handle(.wake, at: second) == [.advertise(call)])
            #expect(handle(.advertisingFailed("bluetoothd refused it"), at: second) == [])
        }
        #expect(handle(.wake, at: 30) == [.advertise(call)])
        // After 30 s without the failure, it is new.
        #expect(handle(.advertisingFailed("bluetoothd refused it"), at: 56) == [.show(.notice(Self.failed))])
    }

    @Test("after a failed change, the repetition has the current announcement")
    mutating func repeatsTheCurrentAnnouncement() {
        startCall()
        _ = handle(.advertisingFailed("bluetoothd refused it"))
        #expect(!handle(.typed("/leave"), at: 1).contains(.advertise(presence)))
        #expect(handle(.wake, at: 5) == [.advertise(presence)])
        #expect(messenger.deadline == nil)
    }

    @Test("a failed scan is shown once, and again with another reason or after 30 s without a failure")
    mutating func showsFailedScans() {
        let notices = ["no bus", "off"].map {
            [Messenger.Action.show(.notice("The search for peers failed and is repeated: \($0)"))]
        }
        #expect(handle(.scanFailed("no bus"), at: 0) == notices[0])
        for second in 1...40 { #expect(handle(.scanFailed("no bus"), at: second) == []) }
        #expect(handle(.scanFailed("off"), at: 41) == notices[1])
        #expect(handle(.scanFailed("no bus"), at: 71) == notices[0])
    }
}
