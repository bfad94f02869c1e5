import OTAProfile
import Testing

@Suite("Window size") struct WindowSizeTests {
    @Test("a gap shrinks the window by a quarter only if less than one window was acknowledged since the last gap")
    func shrinks() {
        var window = WindowSize(limit: 64)
        window.acknowledged(64)
        window.lost()
        #expect(window.size == 64)
        window.acknowledged(63)
        window.lost()
        #expect(window.size == 48)
        window.lost()
        #expect(window.size == 36, "the gap resets the count")
    }

    @Test("the window grows by one chunk after each full window of acknowledged chunks")
    func grows() {
        var window = WindowSize(limit: 64)
        window.lost()
        window.acknowledged(47)
        #expect(window.size == 48)
        window.acknowledged(1)
        #expect(window.size == 49)
        window.acknowledged(48)
        #expect(window.size == 49)
        window.acknowledged(1 + 50)
        #expect(window.size == 51, "one report can acknowledge several windows")
    }

    @Test("a growing window counts the chunks since the last gap, not since the last growth")
    func gapAfterGrowth() {
        var window = WindowSize(limit: 64)
        window.lost()
        window.acknowledged(49)
        window.lost()
        #expect(window.size == 49)
    }

    @Test("the window stays between one chunk and the window of the device")
    func limits() {
        var window = WindowSize(limit: 4)
        window.acknowledged(100)
        #expect(window.size == 4)
        window.lost()
        for size in [3, 2, 1, 1] {
            window.lost()
            #expect(window.size == size)
        }
        window.acknowledged(1 + 2 + 3)
        #expect(window.size == 4)
        window.acknowledged(100)
        #expect(window.size == 4)
        #expect(WindowSize(limit: 0).size == 1)
    }
}
